//go:build !unix

package http

// quiet: nobody knows here, so connections are not kept. A new one costs less than a request in doubt.
func (w *wire) quiet() bool { return false }
