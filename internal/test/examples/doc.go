// Package examples runs the definitions of examples/, unchanged, with the real program: `recourse
// serve` on SQLite and on Postgres, with the mock services, a stub of a language model, a worker, a
// sink for events, and simulated people who decide through the API. It has only tests.
//
// Each play is one saga, with faults or without. It must end as expected, and `recourse verify`
// must find no violation in the journals, the rows and the ledger of the mock services. One more
// test runs the research saga while its server is killed repeatedly.
package examples
