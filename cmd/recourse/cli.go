package main

import (
	"recourse/internal/cli/offline"
	"recourse/internal/cli/verify"
)

// commands is the grammar of the command line.
type commands struct {
	Demo     demoCmd          `cmd:"" help:"Run a demo: five sagas with simulated services, a crash and a recovery."`
	Serve    serveCmd         `cmd:"" help:"Run the server."`
	Run      runCmd           `cmd:"" help:"Run one saga in this process, without a server."`
	Validate offline.Validate `cmd:"" help:"Validate definitions."`
	Plan     offline.Plan     `cmd:"" help:"Show the requests that a saga would send, without sending them."`

	Start   startCmd   `cmd:"" help:"Start a saga on a server."`
	List    listCmd    `cmd:"" help:"List sagas."`
	Top     topCmd     `cmd:"" help:"Watch a server's sagas live."`
	Show    showCmd    `cmd:"" help:"Show a saga and its history."`
	Journal journalCmd `cmd:"" help:"Print or follow a saga's journal."`
	Costs   costsCmd   `cmd:"" help:"Show the costs of sagas."`
	Inbox   inboxCmd   `cmd:"" help:"List the inbox: sagas that need a person."`
	Stalled stalledCmd `cmd:"" help:"List stalled sagas and steps, with their reasons."`
	Approve approveCmd `cmd:"" help:"Approve a saga's request."`
	Reject  rejectCmd  `cmd:"" help:"Reject a saga's request."`
	Signal  signalCmd  `cmd:"" help:"Send a saga a signal."`
	Resolve resolveCmd `cmd:"" help:"Resolve a step that needs a person."`
	Retry   retryCmd   `cmd:"" help:"Retry a step that needs a person, or an ended saga as a new one."`
	Cancel  cancelCmd  `cmd:"" help:"Cancel a saga and undo its steps."`
	Pause   pauseCmd   `cmd:"" help:"Pause a saga."`
	Resume  resumeCmd  `cmd:"" help:"Resume a paused saga."`
	Budget  budgetCmd  `cmd:"" help:"Set a saga's budget."`

	Definitions definitionsCmd `cmd:"" help:"Publish and list definitions."`

	Replay offline.Replay `cmd:"" help:"Show the history of an exported journal, offline."`
	Verify verify.Command `cmd:"" help:"Check exported journals, or a database, against their definitions and the ledgers of remote services."`

	Doctor  doctorCmd  `cmd:"" help:"Check a configuration, its database and its environment."`
	Migrate migrateCmd `cmd:"" help:"Migrate a database's schema, or show its version."`
	Keys    keysCmd    `cmd:"" help:"Create, list and revoke API keys in the database."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Completion completionCmd `cmd:"" help:"Print a shell script that completes commands, flags, names and ids."`

	Bench benchCmd `cmd:"" help:"Measure the overhead of a saga compared with its requests."`

	World worldCmd `cmd:"" hidden:"" help:"Run the simulated services of the demo."`

	BenchStub  benchStubCmd  `cmd:"" hidden:"" help:"Run the remote service of a benchmark."`
	BenchFloor benchFloorCmd `cmd:"" hidden:"" help:"Run the yardstick of a benchmark."`
}

// serverFlags select the server.
type serverFlags struct {
	Server string `default:"http://127.0.0.1:8080" env:"RECOURSE_SERVER" placeholder:"URL" help:"The server's address; default ${default}."`
	APIKey string `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"The API key, if the server requires one. Prefer the environment variable."`
}
