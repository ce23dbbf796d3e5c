package main

import (
	"recourse/internal/cli/agent"
	"recourse/internal/cli/bench"
	"recourse/internal/cli/completion"
	"recourse/internal/cli/crashtest"
	"recourse/internal/cli/demo"
	"recourse/internal/cli/doctor"
	"recourse/internal/cli/offline"
	"recourse/internal/cli/probe"
	"recourse/internal/cli/remote"
	"recourse/internal/cli/verify"
)

// commands is the grammar of the command line.
type commands struct {
	Demo     demo.Command      `cmd:"" help:"Run a demo: five sagas with mock services, a crash and a recovery."`
	Serve    serveCmd          `cmd:"" help:"Run the server."`
	Run      runCmd            `cmd:"" help:"Run one saga in this process, without a server."`
	Validate offline.Validate  `cmd:"" help:"Validate definitions and actions."`
	Plan     offline.Plan      `cmd:"" help:"Show the requests that a saga would send, without sending them."`
	Test     crashtest.Command `cmd:"" help:"Test a definition against crashes and faults of remote services, without sending anything."`
	Probe    probe.Command     `cmd:"" help:"Send a step's request twice to a test instance of a service, to see whether it honours keys."`

	Start   remote.Start   `cmd:"" help:"Start a saga on a server."`
	List    remote.List    `cmd:"" help:"List sagas."`
	Top     remote.Top     `cmd:"" help:"Watch a server's sagas live."`
	Show    remote.Show    `cmd:"" help:"Show a saga and its story, which is its journal in readable form."`
	Journal remote.Journal `cmd:"" help:"Print or follow a saga's journal."`
	Compare remote.Compare `cmd:"" help:"Say how two sagas or sessions differ, step by step."`
	Fork    remote.Fork    `cmd:"" help:"Start a saga or session that begins as another one was after one of its records."`
	Costs   remote.Costs   `cmd:"" help:"Show the costs of sagas."`
	Inbox   remote.Inbox   `cmd:"" help:"List the inbox: items that need a person."`
	Stalled remote.Stalled `cmd:"" help:"List stalled sagas and steps, with their reasons."`
	Approve remote.Approve `cmd:"" help:"Approve an approval step."`
	Reject  remote.Reject  `cmd:"" help:"Reject an approval step."`
	Signal  remote.Signal  `cmd:"" help:"Send a saga a signal."`
	Resolve remote.Resolve `cmd:"" help:"Resolve a step that needs a person."`
	Retry   remote.Retry   `cmd:"" help:"Retry a step that needs a person, or an ended saga as a new one."`
	Cancel  remote.Cancel  `cmd:"" help:"Cancel a saga and undo its steps."`
	Undo    remote.Undo    `cmd:"" help:"Undo a saga, also one that has succeeded, or show what would be undone."`
	Pause   remote.Pause   `cmd:"" help:"Pause a saga."`
	Resume  remote.Resume  `cmd:"" help:"Resume a paused saga, or steps that are on hold."`
	Budget  remote.Budget  `cmd:"" help:"Set a saga's budget."`

	Agent    agent.Command   `cmd:"" help:"Run an agent in a session."`
	MCP      agent.MCP       `cmd:"" name:"mcp" help:"Serve the actions of a session as tools to an MCP client, on stdin and stdout."`
	Sessions remote.Sessions `cmd:"" help:"List, show, compare and abort the sessions of agents."`

	Definitions remote.Definitions `cmd:"" help:"Publish and list definitions."`

	Replay offline.Replay `cmd:"" help:"Show an exported journal as a story, offline."`
	Verify verify.Command `cmd:"" help:"Check exported journals, or a database, against their definitions and the ledgers of remote services."`

	Doctor  doctor.Command `cmd:"" help:"Check a configuration, its database and its environment."`
	Migrate migrateCmd     `cmd:"" help:"Migrate a database's schema, or show its version."`
	Keys    keysCmd        `cmd:"" help:"Create, list and revoke API keys in the database."`
	Version versionCmd     `cmd:"" help:"Print the version."`

	Completion completion.Command `cmd:"" help:"Print a shell script that completes commands, flags, names and ids."`

	Bench bench.Command `cmd:"" help:"Measure what sagas cost in addition to their requests."`

	World demo.World `cmd:"" hidden:"" help:"Run the mock services of the demo."`

	BenchStub  bench.Stub  `cmd:"" hidden:"" help:"Run the remote service of a benchmark."`
	BenchFloor bench.Floor `cmd:"" hidden:"" help:"Run the yardstick of a benchmark."`
}
