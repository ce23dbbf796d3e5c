// Package crashtest kills and freezes the real program at each window where a
// crash could do harm, lets another process go on, and compares the journals
// with the world's ledger. It is all tests.
package crashtest
