package engine

import "time"

// Meter receives the engine's measurements. Several goroutines call its methods, which must not
// block.
type Meter interface {
	// Committed reports a successful commit of so many appends, and how long its last try took.
	Committed(appends int, took time.Duration)
	// Renewed reports that the lease was renewed, and for how long requests could still have been
	// sent under the old one.
	Renewed(left time.Duration)
	// Claimed reports that the node has claimed a saga, and for how long the saga had been due.
	Claimed(late time.Duration)
}

// unmetered is the default Meter.
type unmetered struct{}

func (unmetered) Committed(int, time.Duration) {}
func (unmetered) Renewed(time.Duration)        {}
func (unmetered) Claimed(time.Duration)        {}
