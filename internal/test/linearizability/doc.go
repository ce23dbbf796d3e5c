// Package linearizability records the requests of concurrent REST clients and their responses while
// nodes and the database fail, and checks that the history of each saga is linearizable: that its
// operations could have happened one after another, in an order that agrees with the times at which
// clients waited.
//
// The specification is the saga's own journal, read at the end. Its length is the state. A saga
// grows by itself, so the length may rise between any two requests, and never falls. A read shows
// some length: everything that it shows must be the state of the journal at that length, and a
// later read shows at least that length. A command that was carried out is at its own seq. A
// refusal needs a length at which the saga refuses the command.
//
// A request without a usable response (the client gave up, the connection broke, a 5xx) may have
// been carried out at any time after it was made, or never. The checker tries both, and the journal
// says which one happened.
//
// [Recorder] keeps the history, [Client] makes and records requests, [Truth] is the final content
// of the store, and [Check] compares the two.
package linearizability
