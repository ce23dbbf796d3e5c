//go:build unix

package http

import "syscall"

// quiet reports whether nothing came on an idle connection: neither its end nor
// bytes that nobody asked for.
func (w *wire) quiet() bool {
	if w.tcp == nil {
		return false
	}
	quiet := false
	var b [1]byte
	err := w.tcp.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true // do not wait
	})
	return err == nil && quiet
}
