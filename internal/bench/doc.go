// Package bench measures what a saga costs beside the requests that it makes, and what
// many sagas, long ones and crashed ones cost.
//
// The workload booking3 is one saga of three POSTs, each with a compensation.
// The engine is this program's own `serve`; beside it stands a floor: a bare
// program that takes the same starts, makes the same requests, and appends the
// same bytes in as many durable appends with group commit, without an engine.
// Both run in turns in the same session on the same machine: what counts is the ratio.
// wide (fifty POSTs) and start (none: a durable start) are measured alike.
//
// long, parked, recover and list stand alone: what one saga of many steps costs per
// step, what a database full of sleeping sagas costs a server and how fast they wake, how
// soon sagas go on after a kill -9, and how long lists take.
//
// The load, the engine, the floor and the other side are processes of their own.
package bench
