// Package arch has the rules of this code base that the compiler does not check: which packages may
// import which, and what pure packages must not use. It has only tests.
package arch
