package world

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const mib = 1 << 20

// outcome returns the status in the ledger of a response with this fault.
func (d Do) outcome(a answer) string {
	switch d.fault() {
	case FaultDrop, FaultReset, FaultHang:
		return Dropped
	case FaultGarbage:
		return strconv.Itoa(http.StatusOK)
	}
	return strconv.Itoa(a.status)
}

// statusAnswer returns the response of a FaultStatus.
func (d Do) statusAnswer() answer {
	a := problem(d.Status, "injected fault", "a fault rule answered this: see /_faults")
	if d.Body != "" {
		a.body = []byte(d.Body)
		a.header.Set("Content-Type", "application/json")
	}
	if d.RetryAfter != "" {
		a.header.Set("Retry-After", d.RetryAfter)
	}
	if d.Redirect != "" {
		a.header.Set("Location", d.Redirect)
	}
	return a
}

// deliver sends the response to the client with the fault d. done ends hanging and slow responses.
func (d Do) deliver(rw http.ResponseWriter, r *http.Request, a answer, done <-chan struct{}) {
	switch d.fault() {
	case FaultDrop:
		drop(rw, false)
	case FaultReset:
		drop(rw, true)
	case FaultHang:
		select {
		case <-r.Context().Done():
		case <-done:
		}
		drop(rw, false)
	case FaultCut:
		a.start(rw, len(a.body))
		a.breakOff(rw)
	case FaultTruncate:
		a.body = a.body[:len(a.body)/2]
		a.send(rw)
	case FaultGarbage:
		a = reply(http.StatusOK, nil)
		a.body = []byte("<html>this is not JSON</html>")
		a.send(rw)
	case FaultOversize:
		a.start(rw, -1)
		_ = pad(rw, d.MiB) // the client may close the connection
	case FaultGzipBomb:
		a.header = a.header.Clone()
		a.header.Set("Content-Encoding", "gzip")
		a.start(rw, -1)
		z := gzip.NewWriter(rw)
		if pad(z, d.MiB) == nil {
			_ = z.Close()
		}
	case FaultSlow:
		a.drip(rw, r, time.Duration(d.SlowMS)*time.Millisecond, done)
	default:
		a.send(rw)
	}
}

// drop closes the connection without a byte, with a TCP reset if asked. The body was read, so a
// plain close is an orderly one.
func drop(rw http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the connection cannot be hijacked: the server closes it
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// breakOff sends half of the body and closes the connection.
func (a answer) breakOff(rw http.ResponseWriter) {
	_, _ = rw.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(rw).Flush()
	panic(http.ErrAbortHandler)
}

// pad writes a JSON object of slightly more than n MiB.
func pad(to io.Writer, n int) error {
	if _, err := io.WriteString(to, `{"padding":"`); err != nil {
		return err
	}
	block := bytes.Repeat([]byte("a"), mib)
	for range n {
		if _, err := to.Write(block); err != nil {
			return err
		}
	}
	_, err := io.WriteString(to, `"}`)
	return err
}

// drip sends the body a byte at a time.
func (a answer) drip(rw http.ResponseWriter, r *http.Request, every time.Duration, done <-chan struct{}) {
	a.start(rw, len(a.body))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range a.body {
		if _, err := rw.Write(a.body[i : i+1]); err != nil {
			return
		}
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-done:
			panic(http.ErrAbortHandler)
		}
	}
}
