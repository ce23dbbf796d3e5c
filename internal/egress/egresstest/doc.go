// Package egresstest tests senders of HTTP requests against the contract of package egress, and has
// servers that a test scripts byte by byte.
package egresstest
