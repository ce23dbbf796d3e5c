// Package crashmatrix tests a definition against crashes and faults.
//
// [Run] runs sagas of one definition, each with one fault: at the first request of a step, or of
// its compensation, the process crashes, the answer is lost, or the remote service answers with an
// error. The saga runs on the real machine and on a lane of package engine, with a store in memory
// and a virtual clock. A stub stands for the remote services: it makes up answers, keeps a ledger
// of effects, and honours idempotency keys as the definition says.
//
// Each run is a [Row], with a [Verdict] about what the ledger shows at the end: an effect that
// happened twice, an effect that stays although nothing names or undoes it, or a saga that does not
// end, is a fault of the definition. The same definition and options give the same rows.
//
// A run is single-threaded; several runs are made at the same time. Nothing leaves the process.
package crashmatrix
