// Package measure measures the overhead of recourse: the cost of a saga besides its requests, of
// many sagas, of long ones, and of a crash.
//
// The workload booking3 is a saga of three POSTs, each with a compensation. The engine is this
// program's own `serve`. It is compared with a floor: a program without an engine that takes the
// same starts, makes the same requests and as many durable appends, with group commit, and stores
// only the responses. Both run in turns in the same session on the same machine; the result
// is the ratio. wide (fifty POSTs) and start (no POST: only a durable start) are measured in the
// same way. start also measures batches of starts, which the floor does not have.
//
// growth measures booking3, and lists, in a database with more and more ended sagas.
//
// long, parked, recover and list have no floor. They measure the cost per step of a saga with many
// steps, the cost of a database full of sleeping sagas and how fast these wake, how soon sagas
// continue after a kill -9, and how long lists take.
//
// agent has no floor either: the same requests go to the remote service itself and through the
// engine, in turns. The remote service has a language model for it.
//
// Peers measures booking3 on programs of others, too, one at a time: bench/peers starts them.
//
// The load, the engine, the floor and the remote service are separate processes.
package measure
