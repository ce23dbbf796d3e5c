// Package wire breaks the connections of a running system, and checks that the results are
// right. [Proxy] is between a store and its Postgres, understands the protocol, and cuts, delays or
// refuses a chosen transaction. The tests do so at each transaction of the store, and between
// running nodes, their database and the services that they call.
package wire
