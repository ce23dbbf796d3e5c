package main

// cli is the grammar of the command line.
type cli struct {
	Demo     demoCmd     `cmd:"" help:"See it work: everything embedded, five stories, a crash and a recovery."`
	Serve    serveCmd    `cmd:"" help:"Run the server."`
	Run      runCmd      `cmd:"" help:"Run one saga here, without a server."`
	Validate validateCmd `cmd:"" help:"Check definitions."`
	Plan     planCmd     `cmd:"" help:"Show what a saga would send, without sending it."`

	Start   startCmd   `cmd:"" help:"Start a saga on a server."`
	List    listCmd    `cmd:"" help:"List sagas."`
	Top     topCmd     `cmd:"" help:"Watch what a server is at."`
	Show    showCmd    `cmd:"" help:"Show a saga and tell its story."`
	Journal journalCmd `cmd:"" help:"Print or follow a saga's journal."`
	Costs   costsCmd   `cmd:"" help:"Show what sagas have cost."`
	Inbox   inboxCmd   `cmd:"" help:"List what waits for a person."`
	Stalled stalledCmd `cmd:"" help:"List what does not move, and why."`
	Approve approveCmd `cmd:"" help:"Approve what a saga asks."`
	Reject  rejectCmd  `cmd:"" help:"Reject what a saga asks."`
	Signal  signalCmd  `cmd:"" help:"Send a saga a signal."`
	Resolve resolveCmd `cmd:"" help:"Settle a step that waits for a person."`
	Retry   retryCmd   `cmd:"" help:"Retry what waits for a person, or an ended saga as a new one."`
	Cancel  cancelCmd  `cmd:"" help:"Cancel a saga: what it did is undone."`
	Pause   pauseCmd   `cmd:"" help:"Let a saga do nothing more for now."`
	Resume  resumeCmd  `cmd:"" help:"Let a paused saga go on."`
	Budget  budgetCmd  `cmd:"" help:"Set what a saga may cost."`

	Definitions definitionsCmd `cmd:"" help:"Publish and list definitions."`

	Replay replayCmd `cmd:"" help:"Tell the story of an exported journal, offline."`
	Verify verifyCmd `cmd:"" help:"Check exported journals, or a database, against their definitions and the other side's ledger."`

	Doctor  doctorCmd  `cmd:"" help:"Check a configuration, its database, and what it needs around it."`
	Migrate migrateCmd `cmd:"" help:"Bring a database's schema up to date, or look at it."`
	Keys    keysCmd    `cmd:"" help:"Make, list and revoke API keys, in the database."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Completion completionCmd `cmd:"" help:"Print a script that makes a shell complete commands, flags, names and ids."`

	Bench benchCmd `cmd:"" help:"Measure what a saga costs beside the requests that it makes."`

	World worldCmd `cmd:"" hidden:"" help:"Run the demo's world."`

	BenchStub  benchStubCmd  `cmd:"" hidden:"" help:"Run the other side of a benchmark."`
	BenchFloor benchFloorCmd `cmd:"" hidden:"" help:"Run the floor of a benchmark."`
}

// serverFlags say which server a command talks to.
type serverFlags struct {
	Server string `default:"http://127.0.0.1:8080" env:"RECOURSE_SERVER" placeholder:"URL" help:"The server's address; default ${default}."`
	APIKey string `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"The API key, if the server asks for one; better set in the environment."`
}

// outputFlag says for whom the output is.
type outputFlag struct {
	Output string `short:"o" enum:"text,json,yaml" default:"text" env:"RECOURSE_OUTPUT" help:"text for people; json or yaml for machines (numbers byte for byte)."`
}

// machine says that a program reads the output: app.raw and app.encoded write it in the form that
// was asked for.
func (o outputFlag) machine() bool { return o.Output != "text" }

// databaseFlag says where sagas are kept.
type databaseFlag struct {
	Database string `default:"recourse.db" env:"RECOURSE_DATABASE" placeholder:"FILE|URL" help:"A SQLite file, or postgres://…; default ${default}."`
}
