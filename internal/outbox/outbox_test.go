package outbox

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/internal/egress"
	"recourse/internal/test/buffer"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/sqlite"
)

// got is a request that a sink has received.
type got struct {
	Header http.Header
	Body   string
}

// receiver is a sink over loopback.
type receiver struct {
	*httptest.Server
	answer func(n int) int // the status of the n-th request, from 1; nil: 204
	came   chan got
	count  atomic.Int64
}

func newReceiver(t *testing.T, answer func(n int) int) *receiver {
	r := &receiver{answer: answer, came: make(chan got, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		status := http.StatusNoContent
		if n := int(r.count.Add(1)); r.answer != nil {
			status = r.answer(n)
		}
		if status == http.StatusFound {
			w.Header().Set("Location", r.URL+"/elsewhere")
		}
		w.WriteHeader(status)
		r.came <- got{req.Header, string(body)}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) next(t *testing.T) got {
	t.Helper()
	select {
	case g := <-r.came:
		return g
	case <-time.After(time.Minute):
		t.Fatal("the sink gets nothing")
		return got{}
	}
}

// clock is a store's clock, set by the test.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}
func (c *clock) now() time.Time       { return time.UnixMilli(c.at.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.at.Add(d.Milliseconds()) }
func (c *clock) store() *memory.Store { return memory.New(memory.Config{Now: c.now}) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// event adds an event to a store, as an append does.
func event(t *testing.T, s journal.Store, data string, sinks ...string) uuid.UUID {
	t.Helper()
	node := uuid.Must(uuid.NewV7()).String()
	if _, err := s.Register(t.Context(), node, time.Hour); err != nil {
		t.Fatal(err)
	}
	saga, id := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	a := journal.Append{Saga: saga, Start: &journal.Start{Definition: "d", Version: 1, CreatedAt: time.Now()}, Row: &journal.Row{Status: "running"},
		Records: []journal.Record{{Seq: 1, Kind: journal.Started, At: time.Now(), Node: node}}}
	a.Records[0].Hash = []byte("x")
	for _, sink := range sinks {
		a.Events = append(a.Events, journal.Event{ID: id, Saga: saga, Sink: sink, Data: json.RawMessage(data)})
	}
	results, err := s.Append(t.Context(), node, []journal.Append{a})
	if err == nil {
		err = results[0].Err
	}
	if err := errors.Join(err, s.Release(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	return id
}

// deliver runs an Outbox until the test ends or stop is called.
func deliver(t *testing.T, cfg Config) (o *Outbox, stop func()) {
	t.Helper()
	cfg.Egress.Guard, cfg.Poll = egress.AllowAll(), 5*time.Millisecond
	if cfg.Secret == nil {
		cfg.Secret = func(string) (string, error) { return secret, nil }
	}
	o = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		o.Run(ctx)
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return o, stop
}

// until waits for a state of the store's outbox.
func until(t *testing.T, s journal.Outbox, what string, holds func([]journal.OutboxStat) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		st, err := s.OutboxStats(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if holds(st) {
			return
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-deadline:
			t.Fatalf("never %s: %+v", what, st)
		}
	}
}

func empty(st []journal.OutboxStat) bool { return len(st) == 0 }
func failed(why string) func([]journal.OutboxStat) bool {
	return func(st []journal.OutboxStat) bool { return len(st) == 1 && strings.Contains(st[0].Last, why) }
}

// The test vector is from the reference implementations of Standard Webhooks.
func TestSign(t *testing.T) {
	key, err := readSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at, body := time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)
	if s := sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body); s != want {
		t.Errorf("%s, want %s", s, want)
	}
	if s := sign([][]byte{make([]byte, 32), key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body); !strings.HasSuffix(s, " "+want) || strings.Count(s, "v1,") != 2 {
		t.Errorf("two secrets: %s", s)
	}
	for _, bad := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_%%%", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if err := CheckSecret(bad); err == nil || len(bad) > 10 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDelivers(t *testing.T) {
	c := newClock()
	s, r := c.store(), newReceiver(t, nil)
	data := `{"specversion":"1.0","id":"1","source":"/s","type":"com.a","data":9007199254740993}`
	id := event(t, s, data, "one")
	c.pass(3 * time.Second)
	ages := make(chan time.Duration, 10)
	o, _ := deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "one", URL: r.URL, Secrets: []string{"A", "B"}}}, Delivered: func(sink string, age time.Duration) {
		if sink == "one" {
			ages <- age
		}
	}})
	g := r.next(t)
	key, _ := readSecret(secret)
	want := map[string]string{"Content-Type": "application/cloudevents+json", "Webhook-Id": id.String(), "Webhook-Timestamp": "1767323048",
		"Webhook-Signature": sign([][]byte{key, key}, id.String(), c.now(), []byte(data))}
	have := map[string]string{}
	for name := range want {
		have[name] = g.Header.Get(name)
	}
	if diff := cmp.Diff(want, have); diff != "" || g.Body != data {
		t.Errorf("body %s, headers (-want +got):\n%s", g.Body, diff)
	}
	until(t, s, "empty", empty)
	if diff := cmp.Diff([]Stats{{Sink: "one", Delivered: 1}}, o.Stats()); diff != "" {
		t.Error(diff)
	}
	if age := <-ages; age != 3*time.Second || len(ages) > 0 {
		t.Errorf("delivered at the age of %v, and %d more", age, len(ages))
	}
}

// A failed delivery is retried under the same id, with longer and longer delays.
func TestRetries(t *testing.T) {
	c := newClock()
	s, r := c.store(), newReceiver(t, func(n int) int {
		return []int{http.StatusInternalServerError, http.StatusFound, http.StatusNotFound, http.StatusOK}[min(n-1, 3)]
	})
	id := event(t, s, `{"type":"a"}`, "one")
	o, _ := deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "one", URL: r.URL}}})
	for _, tt := range []struct {
		why  string
		wait time.Duration
	}{{"500", 6 * time.Second}, {"302", 18 * time.Second}, {"404", 54 * time.Second}} {
		if g := r.next(t); g.Header.Get("webhook-id") != id.String() || g.Header.Get("webhook-signature") != "" {
			t.Errorf("%v", g.Header)
		}
		until(t, s, tt.why, failed(tt.why))
		c.pass(tt.wait / 2)
		select {
		case <-r.came:
			t.Error("it is retried too soon")
		case <-time.After(20 * time.Millisecond):
		}
		c.pass(tt.wait / 2)
	}
	r.next(t)
	until(t, s, "empty", empty)
	if st := o.Stats()[0]; st.Delivered != 1 || st.Failed != 3 {
		t.Errorf("%+v", st)
	}
}

// putOff is a store that notes for how long events are postponed.
type putOff struct {
	journal.Outbox
	waits chan time.Duration
}

func (p putOff) EventFailed(ctx context.Context, id uuid.UUID, sink string, wait time.Duration, why string) error {
	p.waits <- wait
	return p.Outbox.EventFailed(ctx, id, sink, wait, why)
}

// Every failure but a 410 keeps the event. After each of them, Retry-After applies if it is longer
// than the backoff.
func TestRefusals(t *testing.T) {
	for _, status := range []int{301, 400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 503} {
		for after, want := range map[string][2]time.Duration{ // the shortest and the longest wait
			"": {4 * time.Second, 6 * time.Second}, "1": {4 * time.Second, 6 * time.Second}, "120": {2 * time.Minute, 2 * time.Minute},
			"Fri, 02 Jan 2026 03:14:05 GMT": {10 * time.Minute, 10 * time.Minute}, "soon": {4 * time.Second, 6 * time.Second},
		} {
			c := newClock()
			s := c.store()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				w.WriteHeader(status)
			}))
			event(t, s, `{"type":"a"}`, "one")
			p := putOff{s, make(chan time.Duration, 10)}
			o, stop := deliver(t, Config{Store: p, Now: c.now, Sinks: []Sink{{Name: "one", URL: srv.URL}}})
			select {
			case wait := <-p.waits:
				if wait < want[0] || wait > want[1] {
					t.Errorf("%d with Retry-After %q: it waits for %v, want %v", status, after, wait, want)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%d: the event is not put off", status)
			}
			stop()
			srv.Close()
			if st := o.Stats()[0]; st.Dropped != 0 || st.Delivered != 0 || st.Failed != 1 {
				t.Errorf("%d: %+v", status, st)
			}
			until(t, s, "kept", func(st []journal.OutboxStat) bool { return len(st) == 1 && st[0].Events == 1 })
		}
	}
}

func TestBackoffIsAnHourInTheEnd(t *testing.T) {
	if d := backoff.Delay(40, 1<<63); d < 50*time.Minute || d > 70*time.Minute {
		t.Error(d)
	}
}

// An event that cannot be sent waits, with a reason that contains no secret and no URL.
func TestCannotSend(t *testing.T) {
	for name, tt := range map[string]struct {
		sink   Sink
		secret string
		err    error
		why    string
	}{
		"no secret":    {Sink{Secrets: []string{"KEY"}}, "", errors.New("secret KEY is not provided"), "KEY is not provided"},
		"bad secret":   {Sink{Secrets: []string{"KEY"}}, "canary-1", nil, "secret KEY: a sink's secret is whsec_"},
		"nobody there": {Sink{URL: "http://127.0.0.1:1/canary-1"}, secret, nil, "refused"},
		"a password":   {Sink{URL: "http://user:canary-1@127.0.0.1:1/"}, secret, nil, "must not hold a user"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			s, r := c.store(), newReceiver(t, nil)
			if tt.sink.Name == "" {
				tt.sink.Name = "one"
			}
			if tt.sink.URL == "" {
				tt.sink.URL = r.URL
			}
			event(t, s, `{"type":"a"}`, "one")
			deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{tt.sink}, Secret: func(string) (string, error) { return tt.secret, tt.err }})
			until(t, s, tt.why, failed(tt.why))
			if st, _ := s.OutboxStats(t.Context()); strings.Contains(st[0].Last, "canary") || r.count.Load() > 0 {
				t.Errorf("%+v, %d requests", st, r.count.Load())
			}
		})
	}
}

// postponed is a store that keeps the delays after failed deliveries.
type postponed struct {
	journal.Outbox
	waits []time.Duration
}

func (p *postponed) EventFailed(_ context.Context, _ uuid.UUID, _ string, wait time.Duration, _ string) error {
	p.waits = append(p.waits, wait)
	return nil
}

// However often an event has failed, it does not wait long for the configuration to be repaired.
func TestMisconfiguredSinkIsTriedSoon(t *testing.T) {
	var store postponed
	w := &worker{Sink: Sink{Name: "one", URL: "ftp://sink.example"}, Outbox: New(Config{Store: &store})}
	w.deliver(t.Context(), journal.Delivery{Attempts: 40})
	if d := cmp.Diff([]time.Duration{5 * time.Minute}, store.waits); d != "" {
		t.Error(d)
	}
}

// A delivery that could last until another node may claim its event does not begin.
func TestDeliveryEndsBeforeItsLease(t *testing.T) {
	var store postponed
	w := &worker{Sink: Sink{Name: "one", URL: "ftp://sink.example"}, Outbox: New(Config{Store: &store, Timeout: time.Minute}), queue: make(chan queued, 2)}
	w.queue <- queued{journal.Delivery{}, time.Now().Add(time.Minute + 4*time.Second)}
	w.queue <- queued{journal.Delivery{}, time.Now().Add(time.Hour)}
	close(w.queue)
	w.run(t.Context())
	if n := len(store.waits); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// A broken response is reported in one short line without control characters, which is safe for a
// terminal. Data that arrives before the request is no response to it. Whether it arrives before or
// after the request is sent, the event is not delivered.
func TestBrokenAnswer(t *testing.T) {
	for name, early := range map[string]bool{"to the request": false, "before the request": true} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if !early {
						if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
							_, _ = io.Copy(io.Discard, r.Body)
						}
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\x1b]0;owned\a\x9b2J"+strings.Repeat("x", 30_000)+"\r\n\r\n")
					_ = conn.Close()
				}
			}()
			s := newClock().store()
			event(t, s, `{"type":"a"}`, "one")
			deliver(t, Config{Store: s, Sinks: []Sink{{Name: "one", URL: "http://" + l.Addr().String()}}})
			until(t, s, "a failure", func(st []journal.OutboxStat) bool {
				return failed("malformed")(st) || early && failed("before the request")(st)
			})
			st, err := s.OutboxStats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if why := st[0].Last; len(why) > 1000 || strings.ContainsFunc(why, unicode.IsControl) || strings.Contains(why, "%!") {
				t.Errorf("%d bytes: %.200q", len(why), why)
			}
		})
	}
}

func TestGoneIsDropped(t *testing.T) {
	c := newClock()
	s, r := c.store(), newReceiver(t, func(int) int { return http.StatusGone })
	event(t, s, `{"type":"a"}`, "one")
	o, _ := deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "one", URL: r.URL}}})
	until(t, s, "empty", empty)
	if st := o.Stats()[0]; st.Dropped != 1 || st.Delivered != 0 {
		t.Errorf("%+v", st)
	}
}

// What a sink gets was decided when an event was written: a node with an older configuration, or of
// an older release, delivers it too.
func TestDeliversWhatIsStored(t *testing.T) {
	c := newClock()
	s, r := c.store(), newReceiver(t, nil)
	deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "one", URL: r.URL, Types: []string{"com.a"}, Notify: []string{"failed"}}}})
	for _, kind := range []string{"com.b", "recourse.inbox.approval", "recourse.later"} {
		event(t, s, `{"type":"`+kind+`"}`, "one")
		r.next(t)
	}
}

// A sink that never responds does not delay the others.
func TestSlowSink(t *testing.T) {
	c := newClock()
	s, fast := c.store(), newReceiver(t, nil)
	free := make(chan struct{})
	slow := newReceiver(t, func(int) int {
		<-free
		return http.StatusOK
	})
	defer sync.OnceFunc(func() { close(free) })()
	for range 30 {
		event(t, s, `{"type":"a"}`, "slow")
	}
	deliver(t, Config{Store: s, Now: c.now, PerSink: 2, Sinks: []Sink{{Name: "slow", URL: slow.URL}, {Name: "fast", URL: fast.URL}}})
	until(t, s, "slow", func([]journal.OutboxStat) bool { return slow.count.Load() == 2 })
	event(t, s, `{"type":"a"}`, "fast")
	fast.next(t)
	if n := slow.count.Load(); n != 2 {
		t.Errorf("%d requests at once to the slow sink, want 2", n)
	}
}

// forgetful is a process that dies before it has recorded its deliveries.
type forgetful struct{ journal.Outbox }

func (forgetful) EventDelivered(context.Context, uuid.UUID, string) error { return io.ErrUnexpectedEOF }

// If a process dies, the events that it has sent are sent again, under the same id, and the others
// are sent too.
func TestRestart(t *testing.T) {
	c := newClock()
	s, r := c.store(), newReceiver(t, nil)
	id := event(t, s, `{"type":"a"}`, "one")
	cfg := Config{Store: forgetful{s}, Now: c.now, Sinks: []Sink{{Name: "one", URL: r.URL}}}
	_, stop := deliver(t, cfg)
	r.next(t)
	stop()
	event(t, s, `{"type":"b"}`, "one")
	c.pass(lease)
	cfg.Store = s
	deliver(t, cfg)
	a, b := r.next(t), r.next(t)
	if a.Body > b.Body {
		a, b = b, a
	}
	if a.Body != `{"type":"a"}` || a.Header.Get("webhook-id") != id.String() || b.Body != `{"type":"b"}` {
		t.Errorf("%+v %+v", a, b)
	}
	until(t, s, "empty", empty)
}

func TestRestartOnDisk(t *testing.T) {
	path, r := filepath.Join(t.TempDir(), "a.db"), newReceiver(t, nil)
	open := func() *sqlite.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	id := event(t, s, `{"type":"a"}`, "one")
	s.Close()
	s = open()
	defer s.Close()
	_, stop := deliver(t, Config{Store: s, Sinks: []Sink{{Name: "one", URL: r.URL}}})
	if g := r.next(t); g.Header.Get("webhook-id") != id.String() {
		t.Errorf("%+v", g)
	}
	until(t, s, "empty", empty)
	stop()
}

// The workers take events while the queue is emptied at a stop, which must not wait for an event
// that a worker has taken.
func TestDiscard(t *testing.T) {
	for range 20_000 {
		queue := make(chan queued, 4)
		for range cap(queue) {
			queue <- queued{}
		}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for range queue {
				}
			})
		}
		discarded := make(chan struct{})
		go func() {
			discard(queue)
			close(discarded)
		}()
		select {
		case <-discarded:
		case <-time.After(10 * time.Second):
			t.Fatal("discard still waits for an event")
		}
		close(queue)
		workers.Wait()
	}
}

// Events for a sink that a node does not have are left to others: they delay no event, and the log
// says once that they wait.
func TestSinkOfOthers(t *testing.T) {
	c := newClock()
	s, one, other := c.store(), newReceiver(t, nil), newReceiver(t, nil)
	for range batch + 1 {
		event(t, s, `{"type":"a"}`, "other")
	}
	event(t, s, `{"type":"a"}`, "one")
	var logged buffer.Buffer
	deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "one", URL: one.URL}}, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	one.next(t)
	event(t, s, `{"type":"a"}`, "one")
	one.next(t)
	if n := strings.Count(logged.String(), "level=WARN"); n != 1 || !strings.Contains(logged.String(), "sink=other") {
		t.Errorf("%d warnings:\n%s", n, &logged)
	}
	deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "other", URL: other.URL}}})
	for range batch + 1 {
		other.next(t)
	}
}

// Neither does a sink with more pending events than fit into memory.
func TestFarBehind(t *testing.T) {
	c := newClock()
	s, fast := c.store(), newReceiver(t, nil)
	free := make(chan struct{})
	slow := newReceiver(t, func(int) int {
		<-free
		return http.StatusOK
	})
	defer sync.OnceFunc(func() { close(free) })()
	for range room + 2*batch {
		event(t, s, `{"type":"a"}`, "slow")
	}
	event(t, s, `{"type":"a"}`, "fast")
	deliver(t, Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "slow", URL: slow.URL}, {Name: "fast", URL: fast.URL}}})
	fast.next(t)
}

// Of large events for a slow sink, few are in memory. Another sink's are claimed meanwhile, and the
// slow one's again as soon as it has taken some.
func TestLargeEventsOfASlowSink(t *testing.T) {
	c := newClock()
	s := c.store()
	large := `{"type":"a","data":"` + strings.Repeat("x", 128<<10) + `"}`
	for range 5 * batch {
		event(t, s, large, "slow")
	}
	o := New(Config{Store: s, Now: c.now, Sinks: []Sink{{Name: "slow", URL: "http://127.0.0.1:1/", Types: []string{"b"}}, {Name: "fast", URL: "http://127.0.0.1:1/"}}})
	slow, fast := o.order[0], o.order[1]
	for range 10 {
		o.claim(t.Context())
	}
	if n, most := len(slow.queue), roomBytes/len(large)+1+batch; n < batch || n > most {
		t.Errorf("%d events wait in memory, of at most %d", n, most)
	}
	event(t, s, large, "fast")
	o.claim(t.Context())
	if len(fast.queue) != 1 {
		t.Errorf("the other sink has %d events", len(fast.queue))
	}
	before := len(slow.queue)
	close(slow.queue)
	slow.run(t.Context()) // the sink does not want this type
	if slow.held.Load() != 0 {
		t.Errorf("%d bytes count after %d events", slow.held.Load(), before)
	}
	slow.queue = make(chan queued, room)
	o.claim(t.Context())
	if len(slow.queue) == 0 {
		t.Error("no further events are claimed")
	}
}

// The log has an outage of the store once, and its end.
func TestOutageIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	o := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i, err := range []error{nil, io.EOF, io.EOF, nil, nil} {
		o.logOutage(err)
		if n, want := strings.Count(log.String(), "\n"), []int{0, 1, 1, 2, 2}[i]; n != want {
			t.Errorf("after %d claims it has logged %s", i+1, &log)
		}
	}
	if !strings.HasSuffix(log.String(), "msg=\"recovered: events are claimed again\"\n") {
		t.Errorf("logged %s", &log)
	}
}

// A sink that names notifications, and no types, gets no events that sagas emit.
func TestEmitted(t *testing.T) {
	for _, tt := range []struct {
		types, notify []string
		want          bool
	}{
		{nil, nil, true},
		{[]string{"order.*"}, nil, true},
		{[]string{"order.*"}, []string{"stuck"}, true},
		{nil, []string{"stuck"}, false},
	} {
		if got := (&Sink{Types: tt.types, Notify: tt.notify}).Emitted(); got != tt.want {
			t.Errorf("types %q, notify %q: %v", tt.types, tt.notify, got)
		}
	}
}
