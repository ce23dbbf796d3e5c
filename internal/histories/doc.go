// Package histories records what clients of the REST API ask and are told while
// nodes and the database misbehave, and checks that each saga's part of it is
// linearizable: that all of it could have happened one after the other, in an
// order that agrees with the times at which clients waited.
//
// The specification is the saga's own journal, read when all is over. Its length
// is the state. A saga grows by itself, so the length may rise between any two
// requests and never falls: a read shows some length, all that it shows has to be what the journal
// up to there means, and whoever asks later sees no less. An order that was carried out stands
// at its own seq. A refusal needs a length at which the saga refuses the order.
//
// A request without a usable answer (the client gave up, the connection broke, a
// 5xx) may have been carried out at any time after it was made, or never: it is
// forked, and the journal says which way it went.
//
// [Recorder] keeps the history, [Client] makes requests and records them, [Truth]
// is what the store holds at the end, and [Check] compares the two.
package histories
