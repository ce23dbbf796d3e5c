// Package page reads the web page as people do: the real program, its demo, and a real browser,
// with the mouse and with the keyboard alone.
//
// It takes the pictures of docs/quickstart.md as well: `make pictures`.
package page
