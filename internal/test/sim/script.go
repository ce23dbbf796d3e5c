package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"recourse/saga"
)

// Script describes a run: which sagas start, what people do, and which faults strike. Timing is the
// seed of everything else, such as how long requests take and which nodes clients ask. The same
// script repeats the same run.
type Script struct {
	Timing   uint64    `json:"timing"`
	Starts   []Start   `json:"starts"`
	Agents   []Agent   `json:"agents,omitempty"`
	Commands []Command `json:"commands,omitempty"`
	Faults   []Fault   `json:"faults,omitempty"`
}

// Start is a client that starts a saga, so many milliseconds after the beginning.
type Start struct {
	At         int64  `json:"at_ms"`
	Definition string `json:"definition"`
}

// Agent is an agent that opens a session. Its seed determines its program.
type Agent struct {
	At   int64  `json:"at_ms"`
	Seed uint64 `json:"seed"`
}

// Command is a person's command to one of the sagas that exist at that time.
type Command struct {
	At      int64        `json:"at_ms"`
	Saga    int          `json:"saga"` // modulo the number of sagas, newest first
	Command saga.Command `json:"command"`
}

// Fault strikes the nth time that a fault of its kind could strike.
type Fault struct {
	Kind Kind `json:"kind"`
	Nth  int  `json:"nth"`
}

// Kind is a kind of fault. Each has one place where it strikes.
type Kind int

// The faults.
const (
	Kill            Kind = iota // a node dies
	Freeze                      // a node is frozen, perhaps past its lease
	Stop                        // a node stops in an orderly way
	CommitRefused               // the store reports that it did not write
	CommitLost                  // a commit does not reach the store, and its result is unknown
	CommitUnknown               // a commit is written, but its response is lost
	CommitLate                  // a commit is written only after its timeout
	CommitSlow                  // a commit is written, but its response is slow
	AppendRefused               // the store refuses an append from now on, for a time or for good
	RegisterSlow                // a registration is answered late
	RenewLost                   // a renewal does not reach the store
	RenewUnknown                // a renewal succeeds, but its response is lost
	ScanLost                    // the store does not respond to a poll for messages and claims
	ClaimUnknown                // sagas are claimed, but the response is lost
	LoadFailed                  // a journal cannot be read this time
	RequestUnsent               // a connection is refused
	RequestLost                 // a request is lost on its way
	RequestLate                 // a request arrives late, perhaps after its timeout
	WorldDrops                  // the service drops the request without an effect
	World503                    // the service responds 503, without an effect
	World429                    // the service responds 429, without an effect
	World401                    // the service responds 401, without an effect
	WorldTwice                  // the network delivers a request twice
	AnswerLost                  // the effect happens, but the response is lost
	Answer500                   // the effect happens, but the response is a 500
	AnswerCut                   // the effect happens, but the response is cut
	StatusDown                  // the status endpoint responds 404, which says nothing about the effect
	BusinessRefuses             // a step is refused, whatever is retried
	PriceMoves                  // a read that has to be fresh gives another answer from now on
	UndoRefused                 // a compensation is refused this time
	TasksUnknown                // tasks are claimed, but the response is lost
	WorkerDies                  // a worker dies with its tasks
	WorkerSlow                  // a worker stops sending heartbeats, but still ends its task
	BeatLost                    // a heartbeat does not reach the store
	WordLost                    // a worker's result does not reach the store, and it sends it again
	WordUnknown                 // a worker's result is stored, but the response is lost
	WordTwice                   // a worker reports a result twice, and then another result
	WorkFails                   // a worker reports a failure
	ReapLost                    // a node does not check for tasks whose workers stopped sending heartbeats
	DecidedTwice                // a decision arrives twice
	DecidedBoth                 // two people decide at once, one approves and one rejects
	DecidedLate                 // a decision arrives late
	WrongHash                   // a person decides on another request than the one that is shown
	NotAllowed                  // a person decides without permission
	Relabelled                  // a person changes a label of the saga about when another one decides
	SignalTwice                 // a signal's message is sent twice
	SignalLate                  // a signal arrives late
	ChildLost                   // a child's start does not reach the engine, and its result is unknown
	ChildUnknown                // a child's start reaches the engine, but the response is lost
	ChildLate                   // a child's start reaches the engine after its caller has stopped waiting
	RevertLost                  // a revert is not sent, and its result is unknown
	RevertTwice                 // a revert is sent twice
	// ClaimForgotten makes a node own sagas without learning of it, as after a failover that
	// restored their old rows.
	ClaimForgotten
	AgentDies     // an agent's process dies, and another one begins
	AgentFollowed // another process of an agent begins while the one before lives on
	AgentSleeps   // an agent's process is suspended, perhaps past its lease
	AskLost       // a command of an agent does not reach the store, and is sent again
	PromptStamped // a process of an agent writes its number into its prompts
	numKinds
)

// faults has the name of each kind, and how rare it is: one time in so many.
var faults = [numKinds]struct {
	name string
	rare int
}{
	Kill: {"kill", 225}, Freeze: {"freeze", 450}, Stop: {"stop", 1500},
	CommitRefused: {"commit-refused", 40}, CommitLost: {"commit-lost", 40}, CommitUnknown: {"commit-unknown", 40}, CommitLate: {"commit-late", 40}, CommitSlow: {"commit-slow", 40},
	AppendRefused: {"append-refused", 60},
	RegisterSlow:  {"register-slow", 3},
	RenewLost:     {"renew-lost", 10}, RenewUnknown: {"renew-unknown", 20}, ScanLost: {"scan-lost", 10}, ClaimUnknown: {"claim-unknown", 20}, LoadFailed: {"load-failed", 20},
	RequestUnsent: {"request-unsent", 30}, RequestLost: {"request-lost", 30}, RequestLate: {"request-late", 15},
	WorldDrops: {"world-drops", 40}, World503: {"world-503", 40}, World429: {"world-429", 40}, World401: {"world-401", 80}, WorldTwice: {"world-twice", 40},
	AnswerLost: {"answer-lost", 12}, Answer500: {"answer-500", 30}, AnswerCut: {"answer-cut", 40},
	StatusDown: {"status-down", 15}, BusinessRefuses: {"business-refuses", 25}, UndoRefused: {"undo-refused", 20}, PriceMoves: {"price-moves", 4},
	TasksUnknown: {"tasks-unknown", 10}, WorkerDies: {"worker-dies", 12}, WorkerSlow: {"worker-slow", 12}, BeatLost: {"beat-lost", 8},
	WordLost: {"word-lost", 12}, WordUnknown: {"word-unknown", 12}, WordTwice: {"word-twice", 12}, WorkFails: {"work-fails", 10}, ReapLost: {"reap-lost", 6},
	DecidedTwice: {"decided-twice", 6}, DecidedBoth: {"decided-both", 6}, DecidedLate: {"decided-late", 5}, WrongHash: {"wrong-hash", 6}, NotAllowed: {"not-allowed", 5}, Relabelled: {"relabelled", 3},
	SignalTwice: {"signal-twice", 6}, SignalLate: {"signal-late", 6},
	ChildLost: {"child-lost", 12}, ChildUnknown: {"child-unknown", 12}, ChildLate: {"child-late", 12}, RevertLost: {"revert-lost", 8}, RevertTwice: {"revert-twice", 8},
	ClaimForgotten: {"claim-forgotten", 60},
	AgentDies:      {"agent-dies", 3}, AgentFollowed: {"agent-followed", 8}, AgentSleeps: {"agent-sleeps", 6}, AskLost: {"ask-lost", 15}, PromptStamped: {"prompt-stamped", 2},
}

// String returns the fault's name.
func (k Kind) String() string { return faults[k].name }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) error {
	for i, f := range faults {
		if f.name == string(b) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("there is no fault %q", b)
}

// dice decides which faults strike: at random, or by a script.
type dice struct {
	rng    *rand.Rand // nil: by script
	script map[Fault]bool
	count  [numKinds]int // how often each could have struck
	struck []Fault
}

func (d *dice) roll(k Kind) bool {
	d.count[k]++
	f := Fault{k, d.count[k]}
	if d.rng != nil && d.rng.IntN(faults[k].rare) == 0 || d.script[f] {
		d.struck = append(d.struck, f)
		return true
	}
	return false
}

// commands are what people send to sagas.
var commands = []saga.Command{
	{Do: saga.Cancel{}, Reason: "sim"}, {Do: saga.Cancel{}, Reason: "sim"}, {Do: saga.Pause{}}, {Do: saga.Compensate{}, Reason: "sim"},
	{Do: saga.Cancel{Mode: "stop"}, Reason: "sim"}, {Do: saga.Pause{}}, {Do: saga.Resume{}}, {Do: saga.Patch{Labels: map[string]string{"a": "b"}}}, {Do: saga.Resume{}},
	{Do: saga.Signal{Name: "go", Data: json.RawMessage(`"early"`)}}, {Do: saga.Patch{Budget: &saga.BudgetData{Amount: "0.30", Currency: "USD"}}},
	{Do: saga.Patch{Budget: &saga.BudgetData{Amount: "1.00", Currency: "USD"}}},
}

// randomScript returns the starts and commands of a seed, and the random source that decides its
// faults during the run.
func randomScript(seed uint64) (Script, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 0xfa17))
	sc := Script{Timing: seed}
	for range 4 + rng.IntN(8) {
		sc.Starts = append(sc.Starts, Start{At: rng.Int64N(int64(faulty/2) / 1e6), Definition: names[rng.IntN(len(names))]})
	}
	for range rng.IntN(12) {
		sc.Commands = append(sc.Commands, Command{At: rng.Int64N(int64(faulty) / 1e6), Saga: rng.IntN(16), Command: commands[rng.IntN(len(commands))]})
	}
	agents := rand.New(rand.NewPCG(seed, 0xa6e47)) // of its own, so that agents change nothing else of a seed
	for range agents.IntN(3) {
		sc.Agents = append(sc.Agents, Agent{At: agents.Int64N(int64(faulty/2) / 1e6), Seed: agents.Uint64()})
	}
	return sc, rng
}

// Shrink returns a shorter script that still has violations. No single part of it can be removed,
// unless the number of runs was too small. Removing a part shifts the later ones, so Shrink also
// tries other timings.
func Shrink(sc Script, o Options, runs int) Script {
	bad := func(c Script) bool {
		for _, timing := range []uint64{sc.Timing, 1, 2, 3, 4, 5} {
			if runs--; runs < 0 {
				return false
			}
			c.Timing = timing
			if len(Play(c, o).Violations) > 0 {
				sc.Timing = timing
				return true
			}
		}
		return false
	}
	for before := -1; before != sc.size() && runs > 0; {
		before = sc.size()
		sc.Faults = reduce(sc.Faults, func(f []Fault) bool { c := sc; c.Faults = f; return bad(c) })
		sc.Commands = reduce(sc.Commands, func(l []Command) bool { c := sc; c.Commands = l; return bad(c) })
		sc.Agents = reduce(sc.Agents, func(l []Agent) bool { c := sc; c.Agents = l; return bad(c) })
		sc.Starts = reduce(sc.Starts, func(l []Start) bool { c := sc; c.Starts = l; return bad(c) })
	}
	return sc
}

func (sc Script) size() int {
	return len(sc.Starts) + len(sc.Agents) + len(sc.Commands) + len(sc.Faults)
}

// ReadScript reads a script from a file.
func ReadScript(file string) (Script, error) {
	var sc Script
	b, err := os.ReadFile(file)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields() // a part that is not read would be left out of the run
		err = d.Decode(&sc)
	}
	if err != nil {
		return sc, fmt.Errorf("script %s: %w", file, err)
	}
	return sc, nil
}

// String returns the script in the form of the files in testdata.
func (sc Script) String() string {
	b, err := json.Marshal(sc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// reduce removes the items of a list that bad does not need, in smaller and smaller pieces (Zeller
// and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", without its complements).
func reduce[T any](list []T, bad func([]T) bool) []T {
	for piece := len(list); piece > 0; piece /= 2 {
		for at := 0; at < len(list); {
			less := slices.Delete(slices.Clone(list), at, min(at+piece, len(list)))
			if bad(less) {
				list = less
			} else {
				at += piece
			}
		}
	}
	return list
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
