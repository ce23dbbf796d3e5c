// Package arch holds the house rules that a compiler does not: which packages
// may import which, and what pure packages may not touch. It is all tests.
package arch
