package main

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A server whose listener fails ends its node in order, and then itself, with an error.
func TestServeWhenItsListenerFails(t *testing.T) {
	s := serve(t, nil, "--no-auth")
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	if !shutListener(t, at.Port()) {
		t.Fatalf("no listener at %s", s.url)
	}
	if code := s.wait(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	log := s.log.String()
	drained, stopped, said := strings.Index(log, "draining"), strings.Index(log, "msg=stopped"), strings.Index(log, "serve: accept tcp")
	if drained < 0 || stopped < drained || said < stopped {
		t.Errorf("log:\n%s", log)
	}
}

// shutListener shuts the socket of this process that listens at a port, so Accept fails. Linux does
// this to a listening socket; other systems refuse.
func shutListener(t *testing.T, port string) bool {
	for fd := range 1024 {
		at, err := syscall.Getsockname(fd)
		in4, ok := at.(*syscall.SockaddrInet4)
		if err != nil || !ok || net.IP(in4.Addr[:]).String() != "127.0.0.1" || strconv.Itoa(in4.Port) != port {
			continue
		}
		if listens, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err != nil || listens == 0 {
			continue
		}
		if err := syscall.Shutdown(fd, syscall.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		return true
	}
	return false
}
