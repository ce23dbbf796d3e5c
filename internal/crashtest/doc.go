// Package crashtest runs the real program, kills and freezes it and has its
// database fail at every point where that could do harm, and compares the journals
// with the ledger of a world that is a process of its own. It is all tests.
//
// A campaign arms one failpoint after the other while clients keep starting
// sagas, people decide what waits for them, and the world answers badly now and then.
// Then everything heals, every saga has to end, and the invariants have to hold.
// RECOURSE_CRASH_ROUNDS says how often each point is struck.
package crashtest
