package engine

import "time"

// Meter is told how well the engine itself does, each time. Its methods are called from several
// goroutines; they take what they want and return.
type Meter interface {
	// Committed says that a commit of so many appends went through, and how long its last try took.
	Committed(appends int, took time.Duration)
	// Renewed says that the lease was renewed, and how long requests might still have left under
	// the old one.
	Renewed(left time.Duration)
	// Claimed says that the node has taken a saga on, and how long that had been due.
	Claimed(late time.Duration)
}

// unmetered is the Meter that nobody reads.
type unmetered struct{}

func (unmetered) Committed(int, time.Duration) {}
func (unmetered) Renewed(time.Duration)        {}
func (unmetered) Claimed(time.Duration)        {}
