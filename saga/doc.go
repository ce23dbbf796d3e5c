/*
Package saga has the model of a saga: the types of a definition, of requests and their answers, of
commands, and of the data in journal records. It decides nothing. Package machine, below this one,
decides what a saga does; package dsl compiles YAML to a [Definition]; the packages below kinds
implement the kinds of steps; package engine does the IO.

# Definitions

A [Definition] is a compiled YAML document: steps, their retry policies, their compensations. It is
immutable and safe to share. A [Step] has the fields that all steps have, and a [Body] that belongs
to its kind. An [Action] is a step under a name of its own, which definitions use.

# Step shapes

The machine knows no kinds, only the shapes of their bodies, and the interfaces that some calls
implement in addition. This table has all of them; shapes.go declares them.

	shape     kinds                             in addition
	Value     set, fail
	Wait      sleep
	Await     approval, signal                  Approver (approval), Receiver (signal)
	Announce  emit
	Block     switch, parallel, foreach, repeat Chooser (switch)
	Call      http, task, run, llm, mcp         Remover (http), Reader (task, llm, mcp),
	                                            Queued (task), Spawner (run), Priced (task, llm),
	                                            Modelled (llm), Sequel (llm), Resulting (mcp)

A kind is a package below kinds and one line in kinds.go. A new shape is a new way to run a step: it
also needs a case in Machine.decideReady and states in the machine's table of transitions.

# Records

The types whose names end in Data ([StartedData], [IntentData], [OutcomeData], …) are the data of
journal records, one for each kind. They are durable: docs/format.md describes each field. [Encode]
writes them.
*/
package saga
