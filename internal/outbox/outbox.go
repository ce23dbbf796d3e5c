// Package outbox delivers events to sinks: each at least once, in the form of a
// structured CloudEvent, signed as Standard Webhooks describe (https://www.standardwebhooks.com).
//
// Events to be delivered are in the journal's outbox, from where any node may take them for a
// while. A delivery that fails is tried again, at first after five seconds, in the end about once
// an hour, for as long as the event is there: nothing is given up unless the sink answers 410 Gone.
// Each sink has workers and a queue of its own, so that a slow one holds up no other.
package outbox

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"recourse/journal"
)

// Config is what an Outbox is made of. Store, Dial and Secret are required; zero fields take the
// defaults beside them.
type Config struct {
	Store  journal.Outbox
	Sinks  []Sink
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // guarded: what it refuses is not reached
	TLS    *tls.Config                                                       // net/http's: whom to trust
	Secret func(name string) (string, error)
	Now    func() time.Time // time.Now: of signatures
	Log    *slog.Logger     // discard
	// Delivered is told of each event that a sink has taken, how old it was: by the workers, so it
	// returns at once. nil: nobody.
	Delivered func(sink string, age time.Duration)

	UserAgent string
	Poll      time.Duration // 500ms: between looks for events when there were none
	Timeout   time.Duration // 15s: of one delivery
	PerSink   int           // 8 deliveries at once to one sink
}

const (
	batch  = 100         // events claimed at once
	room   = 10 * batch  // that wait in memory for one sink
	lease  = time.Minute // for which they are claimed
	margin = 5 * time.Second
	// overrun is how long it takes to look further while a sink is behind: what it has no room for
	// is leased in vain, so that others' events come to light. Some 60,000 of one sink can be in
	// the way before others wait.
	overrun = 100 * time.Millisecond
	grace   = 5 * time.Second // for requests under way when stopping
)

// Outbox delivers events. Make one with New.
type Outbox struct {
	cfg     Config
	log     *slog.Logger
	client  *http.Client
	workers map[string]*worker
	order   []*worker
	ailing  bool // the store did not answer the last time
}

// New returns an Outbox that does nothing until Run.
func New(cfg Config) *Outbox {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Delivered == nil {
		cfg.Delivered = func(string, time.Duration) {}
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 500 * time.Millisecond
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.PerSink <= 0 {
		cfg.PerSink = 8
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "recourse"
	}
	o := &Outbox{cfg: cfg, log: cfg.Log, workers: make(map[string]*worker)}
	o.client = &http.Client{
		Transport: &http.Transport{DialContext: cfg.Dial, TLSClientConfig: cfg.TLS, MaxIdleConnsPerHost: cfg.PerSink, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 10 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, s := range cfg.Sinks {
		w := &worker{Sink: s, Outbox: o, queue: make(chan queued, room)}
		o.workers[s.Name] = w
		o.order = append(o.order, w)
	}
	return o
}

// Run delivers until ctx is done; then it lets deliveries under way end, for a few seconds.
func (o *Outbox) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var all sync.WaitGroup
	for _, w := range o.order {
		for range o.cfg.PerSink {
			all.Go(func() { w.run(sending) })
		}
	}
	for ctx.Err() == nil {
		pause := o.cfg.Poll
		if o.room() {
			switch claimed, lapse := o.claim(ctx); {
			case claimed == batch && lapse:
				pause = overrun
			case claimed == batch:
				pause = 0
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	for _, w := range o.order {
		for len(w.queue) > 0 { // these have not begun: another node may have them when their lease is over
			<-w.queue
		}
		close(w.queue)
	}
	stop := time.AfterFunc(grace, cancel)
	defer stop.Stop()
	all.Wait()
	o.client.CloseIdleConnections()
}

// room reports whether there is a sink that can take more.
func (o *Outbox) room() bool {
	for _, w := range o.order {
		if len(w.queue) <= room-batch {
			return true
		}
	}
	return false
}

// claim takes events and hands them to their sinks. It returns how many it took, and whether some
// found no room: these are due again when their lease is over.
func (o *Outbox) claim(ctx context.Context) (claimed int, lapse bool) {
	until := time.Now().Add(lease)
	list, err := o.cfg.Store.ClaimEvents(ctx, batch, lease)
	if ctx.Err() != nil {
		return 0, false
	}
	o.tell(err)
	for _, d := range list {
		w := o.workers[d.Sink]
		if w == nil {
			o.homeless(ctx, d)
			continue
		}
		select {
		case w.queue <- queued{d, until}:
		default:
			lapse = true
		}
	}
	return len(list), lapse
}

// tell logs that the store is away when that begins, and when it is over.
func (o *Outbox) tell(err error) {
	switch {
	case err != nil && !o.ailing:
		o.log.Warn("could not claim events; they go out when the database answers", "error", err)
	case err == nil && o.ailing:
		o.log.Info("events are claimed again")
	}
	o.ailing = err != nil
}

// homeless puts off an event for a sink that this node does not have. Others may.
func (o *Outbox) homeless(ctx context.Context, d journal.Delivery) {
	why := "there is no sink " + d.Sink + " in the server's configuration: put it back under `sinks`"
	if d.Attempts == 0 {
		o.log.Warn("an event waits for a sink that is not configured", "sink", d.Sink, "event", d.ID, "saga", d.Saga)
	}
	o.keep(ctx, "put an event off", func(ctx context.Context) error { return o.cfg.Store.EventFailed(ctx, d.ID, d.Sink, local, why) })
}

// keep writes something down. If it cannot, the event is due again when its lease is over.
func (o *Outbox) keep(ctx context.Context, what string, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := write(ctx); err != nil {
		o.log.Warn("could not "+what+"; it may be delivered once more", "error", err)
	}
}

// Stats are counts of one sink since the Outbox was made.
type Stats struct {
	Sink      string
	Delivered int64
	Failed    int64 // attempts
	Dropped   int64 // the sink had gone
}

// Stats counts, in the order of the configuration.
func (o *Outbox) Stats() []Stats {
	list := make([]Stats, len(o.order))
	for i, w := range o.order {
		list[i] = Stats{w.Name, w.delivered.Load(), w.failed.Load(), w.dropped.Load()}
	}
	return list
}
