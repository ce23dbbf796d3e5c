//go:build ha

package crash

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"recourse/internal/test/pgha"
	"recourse/internal/test/pgserver"
)

// With --require-sync and a standby that dies, starts are refused until it is back, and the node
// says what to do. Acknowledged starts are kept.
func TestFailoverRequireSync(t *testing.T) {
	p := pgha.NewPair(t, "synchronous_standby_names=*")
	program := struck(t)
	w := startWorld(t, program)
	f := startFleet(t, fleetConfig{program: program, db: onServers(p.URL), world: w.URL, nodes: 1, lease: time.Second, env: []string{"RECOURSE_REQUIRE_SYNC=true"}})
	l := startLoad(f, w, "1s", foul)
	l.more(40)
	l.longest()
	must(t, p.Standby.Halt(pgserver.Killed))
	f.says(t, "starts are refused: --require-sync", 1)
	f.says(t, "and none is connected", 1)
	f.says(t, "start the standby", 1)
	l.mu.Lock()
	acknowledged := len(l.starts)
	l.mu.Unlock()
	if status, body := l.request("POST", "/v1/sagas", []byte(`{"definition":"books","input":{"n":1}}`), "Idempotency-Key", "alone"); status != http.StatusServiceUnavailable {
		t.Errorf("a start without the standby: %d %s", status, body)
	}
	l.mu.Lock()
	if n := len(l.starts) - acknowledged; n > 0 {
		t.Errorf("%d starts were acknowledged without the standby", n)
	}
	l.mu.Unlock()
	must(t, p.Standby.Resume())
	l.more(40)
	t.Logf("the standby was away: %v without an acknowledged start", l.longest())
	l.verify(t)
}

// A program whose commits would wait for a standby that never was ends and says what to do.
func TestFailoverNoStandbyEver(t *testing.T) {
	c, err := pgserver.Start(append([]string{"synchronous_standby_names=nobody"}, pgserver.Durable...)...)
	must(t, err)
	t.Cleanup(func() { must(t, c.Stop()) })
	program := struck(t)
	for _, args := range [][]string{nil, {"--require-sync"}} {
		var log bytes.Buffer
		p, err := spawn(program, nil, &log, slices.Concat([]string{"serve", "--listen", "127.0.0.1:0", "--database", c.URL}, args)...)
		must(t, err)
		if !p.gone(time.Minute) {
			t.Errorf("%v waits without a word", args)
			p.signal(syscall.SIGKILL)
			<-p.dead
		}
		if !strings.Contains(log.String(), "nobody") || !strings.Contains(log.String(), "start the standby") {
			t.Errorf("%v: %s\n%s", args, p.ended(), log.String())
		}
	}
}
