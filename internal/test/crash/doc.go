// Package crash runs the real program, kills it, freezes it, and makes its database fail at
// every point where that could do harm. It then compares the journals with the ledger of a remote
// service that is a separate process. The package has only tests.
//
// A campaign arms one failpoint after another while clients start sagas, people decide inbox
// entries, and the remote service sometimes fails. Then all faults end, every saga must end, and
// the invariants must hold. RECOURSE_CRASH_ROUNDS says how often each point is struck.
package crash
