// Package wiretest breaks the wires of a running system, and checks that what
// comes out is right all the same. [Proxy] stands between a store and its
// Postgres, understands the protocol, and cuts, holds or refuses at a chosen
// transaction. The tests do so at each transaction of the store, and between
// running nodes, their database and the services they call.
package wiretest
