// Package browser tests the web page as people use it: the real program, its demo, and a real
// browser, with the mouse and with the keyboard alone.
//
// It also takes the screenshots of docs/quickstart.md: `make pictures`.
package browser
