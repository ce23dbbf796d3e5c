// Package bench measures what a saga costs beside the requests that it makes.
//
// The workload booking3 is one saga of three POSTs, each with a compensation.
// The engine is this program's own `serve`; beside it stands a floor: a bare
// program that takes the same starts, makes the same requests, and appends the
// same bytes in as many durable appends with group commit, without an engine.
// Both run in turns in the same session on the same machine: what counts is the ratio.
// wide (fifty POSTs) and start (none: a durable start) are measured alike.
//
// The load, the engine, the floor and the other side are processes of their own.
package bench
