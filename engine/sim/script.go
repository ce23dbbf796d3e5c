package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"recourse/saga"
)

// Script is a run written out: what is started, what people do meanwhile, and
// which faults strike. Timing is the seed of all that is neither: how long
// requests take, in which order nodes are asked. The same script is the same run.
type Script struct {
	Timing   uint64    `json:"timing"`
	Starts   []Start   `json:"starts"`
	Commands []Command `json:"commands,omitempty"`
	Faults   []Fault   `json:"faults,omitempty"`
}

// Start is a client that starts a saga, after this many milliseconds.
type Start struct {
	At         int64  `json:"at_ms"`
	Definition string `json:"definition"`
}

// Command is a person's wish about one of the sagas there are at that time.
type Command struct {
	At      int64        `json:"at_ms"`
	Saga    int          `json:"saga"` // modulo the number of sagas, newest first
	Command saga.Command `json:"command"`
}

// Fault is one that strikes: the nth time that it could.
type Fault struct {
	Kind Kind `json:"kind"`
	Nth  int  `json:"nth"`
}

// Kind is a kind of fault, by where it strikes.
type Kind int

// The faults.
const (
	Kill            Kind = iota // a node dies
	Freeze                      // a node stands still, perhaps past its lease
	Stop                        // a node is told to stop, and does so in an orderly way
	CommitRefused               // the store says that it did not write
	CommitLost                  // a commit does not reach the store, and nobody knows
	CommitUnknown               // a commit goes through, but its answer is lost
	CommitLate                  // a commit is applied only after its answer was given up
	CommitSlow                  // a commit goes through, but its answer takes its time
	RenewLost                   // a renewal does not reach the store
	RenewUnknown                // a renewal goes through, but its answer is lost
	ScanLost                    // the store does not answer a look for mail and claims
	ClaimUnknown                // sagas are claimed, but the answer is lost
	LoadFailed                  // a journal cannot be read for now
	RequestUnsent               // a connection is refused
	RequestLost                 // a request is lost on its way
	RequestLate                 // a request arrives late, perhaps after its time-out
	WorldDrops                  // the other side drops the request unseen
	World503                    // …
	World429                    // …
	World401                    // …
	WorldTwice                  // the network delivers a request once more
	AnswerLost                  // done, but the answer is lost
	Answer500                   // done, but the answer says 500
	AnswerCut                   // done, but the answer is cut short
	StatusDown                  // a status query is answered 404, which says nothing
	BusinessRefuses             // a step is refused for good
	UndoRefused                 // an undo is refused for now
	TasksUnknown                // tasks are claimed, but the answer is lost
	WorkerDies                  // a worker dies with what it has
	WorkerSlow                  // a worker falls silent, and ends its work all the same
	BeatLost                    // a heartbeat does not reach the store
	WordLost                    // a worker's word does not reach the store, and it says it again
	WordUnknown                 // it does, but the answer is lost
	WordTwice                   // a worker ends a task twice, and then otherwise
	WorkFails                   // a worker gives up
	ReapLost                    // nobody looks for tasks whose workers fell silent
	DecidedTwice                // a decision arrives twice
	DecidedBoth                 // two decide at once, one this way and one that
	DecidedLate                 // a decision takes its time
	WrongHash                   // somebody decides on something else than is asked
	NotAllowed                  // somebody decides who may not
	SignalTwice                 // a signal's message is posted twice
	SignalLate                  // a signal takes its time
	ChildLost                   // a child's start does not reach the engine, and nobody knows
	ChildUnknown                // it does, but the answer is lost
	ChildLate                   // it does, but so late that nobody waits for it any more
	RevertLost                  // a revert is not posted, and nobody knows
	RevertTwice                 // a revert is posted twice
	ClaimForgotten              // sagas are a node's, and it never hears of it: as by their old rows, after a fail-over that lost the newer ones
	numKinds
)

// faults says of each kind what it is called, and how rare it is: one time in so many.
var faults = [numKinds]struct {
	name string
	rare int
}{
	Kill: {"kill", 225}, Freeze: {"freeze", 450}, Stop: {"stop", 1500},
	CommitRefused: {"commit-refused", 40}, CommitLost: {"commit-lost", 40}, CommitUnknown: {"commit-unknown", 40}, CommitLate: {"commit-late", 40}, CommitSlow: {"commit-slow", 40},
	RenewLost: {"renew-lost", 10}, RenewUnknown: {"renew-unknown", 20}, ScanLost: {"scan-lost", 10}, ClaimUnknown: {"claim-unknown", 20}, LoadFailed: {"load-failed", 20},
	RequestUnsent: {"request-unsent", 30}, RequestLost: {"request-lost", 30}, RequestLate: {"request-late", 15},
	WorldDrops: {"world-drops", 40}, World503: {"world-503", 40}, World429: {"world-429", 40}, World401: {"world-401", 80}, WorldTwice: {"world-twice", 40},
	AnswerLost: {"answer-lost", 12}, Answer500: {"answer-500", 30}, AnswerCut: {"answer-cut", 40},
	StatusDown: {"status-down", 15}, BusinessRefuses: {"business-refuses", 25}, UndoRefused: {"undo-refused", 20},
	TasksUnknown: {"tasks-unknown", 10}, WorkerDies: {"worker-dies", 12}, WorkerSlow: {"worker-slow", 12}, BeatLost: {"beat-lost", 8},
	WordLost: {"word-lost", 12}, WordUnknown: {"word-unknown", 12}, WordTwice: {"word-twice", 12}, WorkFails: {"work-fails", 10}, ReapLost: {"reap-lost", 6},
	DecidedTwice: {"decided-twice", 6}, DecidedBoth: {"decided-both", 6}, DecidedLate: {"decided-late", 5}, WrongHash: {"wrong-hash", 6}, NotAllowed: {"not-allowed", 5},
	SignalTwice: {"signal-twice", 6}, SignalLate: {"signal-late", 6},
	ChildLost: {"child-lost", 12}, ChildUnknown: {"child-unknown", 12}, ChildLate: {"child-late", 12}, RevertLost: {"revert-lost", 8}, RevertTwice: {"revert-twice", 8},
	ClaimForgotten: {"claim-forgotten", 60},
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
	return fmt.Errorf("no fault is called %q", b)
}

// dice decides which faults strike: by chance, or by a script.
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

// commands are what people do about sagas that run.
var commands = []saga.Command{
	{Kind: "cancel", Reason: "sim"}, {Kind: "cancel", Reason: "sim"}, {Kind: "pause"}, {Kind: "compensate", Reason: "sim"},
	{Kind: "cancel", Mode: "stop", Reason: "sim"}, {Kind: "pause"}, {Kind: "resume"}, {Kind: "patch", Labels: map[string]string{"a": "b"}}, {Kind: "resume"},
	{Kind: "signal", Name: "go", Data: json.RawMessage(`"early"`)},
}

// draw makes the starts and orders of a seed; its faults are rolled on the way.
func draw(seed uint64) (Script, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 0xfa17))
	sc := Script{Timing: seed}
	for range 4 + rng.IntN(8) {
		sc.Starts = append(sc.Starts, Start{At: rng.Int64N(int64(faulty/2) / 1e6), Definition: names[rng.IntN(len(names))]})
	}
	for range rng.IntN(12) {
		sc.Commands = append(sc.Commands, Command{At: rng.Int64N(int64(faulty) / 1e6), Saga: rng.IntN(16), Command: commands[rng.IntN(len(commands))]})
	}
	return sc, rng
}

// Shrink returns a script that still has violations, with nothing left in it
// that can be taken away alone, or as much as it can within the given number of
// runs. Taking something away moves what comes later, so other timings are tried, too.
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
		sc.Starts = reduce(sc.Starts, func(l []Start) bool { c := sc; c.Starts = l; return bad(c) })
	}
	return sc
}

func (sc Script) size() int { return len(sc.Starts) + len(sc.Commands) + len(sc.Faults) }

// ReadScript reads a script from a file.
func ReadScript(file string) (Script, error) {
	var sc Script
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &sc)
	}
	if err != nil {
		return sc, fmt.Errorf("script %s: %w", file, err)
	}
	return sc, nil
}

// String returns the script as it is kept in testdata.
func (sc Script) String() string {
	b, err := json.Marshal(sc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// reduce takes away whatever is not needed for bad to hold, in ever smaller pieces (Zeller and
// Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", without its complements).
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
