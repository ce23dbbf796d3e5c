package http

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// refusedAddr is a loopback address where nobody listens.
func refusedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serveTCP has each connection handled by a goroutine of its own, until the test
// ends, and returns its address.
func serveTCP(t *testing.T, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	var open sync.Map
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(conn, true)
			conns.Go(func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
		conns.Wait()
	})
	return l.Addr().String()
}

// serveHangup accepts connections and closes them.
func serveHangup(t *testing.T) string { return serveTCP(t, func(*net.TCPConn) {}) }

// fakeDNS answers A queries with answer(name); "" means no such name.
func fakeDNS(t *testing.T, answer func(name string) string) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			for serveDNS(far, answer) == nil {
			}
		}()
		return near, nil
	}}
}

// serveDNS answers one query in the TCP framing, which the resolver uses on
// anything that is not a packet connection.
func serveDNS(conn net.Conn, answer func(string) string) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q, addr := m.Questions[0], ""
	if answer != nil {
		addr = answer(strings.TrimSuffix(q.Name.String(), "."))
	}
	if addr == "" {
		m.RCode = dnsmessage.RCodeNameError
	} else if ip := net.ParseIP(addr).To4(); ip != nil && q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte(ip)},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	return err
}
