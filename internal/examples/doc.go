// Package examples runs the definitions of examples/, unchanged, with the real
// program: `recourse serve` on SQLite and on Postgres, beside the little world, a
// stub of a language model, a worker, a sink for events, and people who approve by
// the API. It is all tests.
//
// Each play is one saga, with faults or without. It has to end as it should, and
// `recourse verify` has to find nothing in the journals, the rows and the world's
// ledger. Then the research saga is played while its server is killed again and again.
package examples
