// Package outbox delivers events to sinks, each at least once, as structured CloudEvents that are
// signed according to Standard Webhooks (https://www.standardwebhooks.com).
//
// The journal's outbox contains the events to deliver. A node claims those of its sinks for a
// while. A failed delivery is retried, at first after five seconds, later about once an hour, for
// as long as the event exists. Only the response 410 Gone ends the retries. Each sink has workers
// and a queue of its own, so a slow sink does not delay the others.
package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"recourse/internal/egress"
	"recourse/journal"
)

// Config configures an Outbox. Store and Secret are required. A zero field selects the default in
// its comment.
type Config struct {
	Store journal.Outbox
	Sinks []Sink
	// Egress configures the connections. The Outbox sets their number and how long they are kept.
	Egress egress.Config
	Secret func(name string) (string, error)
	Now    func() time.Time // time.Now: for signatures
	Log    *slog.Logger     // discard
	// Delivered is called for each event that a sink has accepted, with the event's age. Workers
	// call it, so it must not block. nil: nothing is called.
	Delivered func(sink string, age time.Duration)

	Poll    time.Duration // 500ms: between polls, after one that found no events
	Timeout time.Duration // 15s: for one delivery
	PerSink int           // 8 deliveries at once to one sink
}

const (
	batch = 100        // events claimed at once for one sink
	room  = 10 * batch // events that wait in memory for one sink
	// roomBytes is how many bytes of events may be in memory for one sink before no more are
	// claimed: an event may have 256 KiB, so their number alone is no bound.
	roomBytes = 8 << 20
	lease     = time.Minute // how long they are claimed
	margin    = 5 * time.Second
	// lookAgain is how often a node looks for events of sinks that it does not have.
	lookAgain = 5 * time.Minute
	grace     = 5 * time.Second // for requests in flight at shutdown
)

// Outbox delivers events. Make one with New.
type Outbox struct {
	cfg     Config
	log     *slog.Logger
	sender  *egress.Sender
	workers map[string]*worker
	order   []*worker
	ailing  bool // the last claim failed
	// looked is when the outbox was last searched for sinks that this node does not have, and
	// absent are those that were logged then.
	looked time.Time
	absent map[string]bool
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
	// The workers limit the connections. A delivery in doubt is repeated, so a connection may be
	// kept for longer than steps may keep theirs.
	cfg.Egress.MaxConnsPerHost, cfg.Egress.IdleTimeout = egress.Unlimited, time.Minute
	o := &Outbox{cfg: cfg, log: cfg.Log, sender: egress.New(cfg.Egress), workers: make(map[string]*worker)}
	for _, s := range cfg.Sinks {
		w := &worker{Sink: s, Outbox: o, queue: make(chan queued, room)}
		o.workers[s.Name] = w
		o.order = append(o.order, w)
	}
	return o
}

// Run delivers events until ctx is done. Then it waits a few seconds for deliveries in flight.
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
		o.logAbsent(ctx)
		pause := o.cfg.Poll
		if o.claim(ctx) {
			pause = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	for _, w := range o.order {
		discard(w.queue) // not begun: another node can claim them when their lease ends
		close(w.queue)
	}
	stop := time.AfterFunc(grace, cancel)
	defer stop.Stop()
	all.Wait()
	o.sender.Close()
}

// discard empties a queue. It never waits for an event, because workers receive from the queue
// meanwhile and may take the last one.
func discard(queue <-chan queued) {
	for {
		select {
		case <-queue:
		default:
			return
		}
	}
}

// claim claims events and passes them to their sinks. It reports whether there may be more. Events
// for a sink whose queue is full stay in the store, as do those for sinks of other nodes.
func (o *Outbox) claim(ctx context.Context) (more bool) {
	var sinks []string
	for _, w := range o.order {
		if len(w.queue) <= room-batch && w.held.Load() < roomBytes {
			sinks = append(sinks, w.Name)
		}
	}
	if len(sinks) == 0 {
		return false
	}
	until := time.Now().Add(lease)
	list, err := o.cfg.Store.ClaimEvents(ctx, sinks, batch, lease)
	if ctx.Err() != nil {
		return false
	}
	o.logOutage(err)
	claimed := make(map[string]int, len(sinks))
	for _, d := range list {
		w := o.workers[d.Sink]
		w.held.Add(int64(len(d.Data)))
		w.queue <- queued{d, until}
		claimed[d.Sink]++
		more = more || claimed[d.Sink] == batch
	}
	return more
}

// logAbsent logs the sinks that events wait for and that this node does not have, each once.
func (o *Outbox) logAbsent(ctx context.Context) {
	if !o.looked.IsZero() && time.Since(o.looked) < lookAgain {
		return
	}
	o.looked = time.Now()
	stats, err := o.cfg.Store.OutboxStats(ctx)
	if err != nil {
		return // logOutage reports an outage
	}
	absent := make(map[string]bool)
	for _, st := range stats {
		if o.workers[st.Sink] != nil {
			continue
		}
		if absent[st.Sink] = true; !o.absent[st.Sink] {
			o.log.Warn("events wait for a sink that this server does not have: add it under `sinks`, unless another server has it", "sink", st.Sink, "events", st.Events)
		}
	}
	o.absent = absent
}

// logOutage logs the beginning and the end of an outage of the store.
func (o *Outbox) logOutage(err error) {
	switch {
	case err != nil && !o.ailing:
		o.log.Warn("could not claim events to deliver; the node will retry", "error", err)
	case err == nil && o.ailing:
		o.log.Info("recovered: events are claimed again")
	}
	o.ailing = err != nil
}

// record writes a result to the store. If that fails, the event is due again when its lease ends.
func (o *Outbox) record(ctx context.Context, what string, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := write(ctx); err != nil {
		o.log.Warn("could not "+what+"; it may be delivered again", "error", err)
	}
}

// Stats are the counts of one sink since the Outbox was made.
type Stats struct {
	Sink      string
	Delivered int64
	Failed    int64 // attempts
	Dropped   int64 // the sink responded 410 Gone
}

// Stats returns the counts of all sinks, in the order of the configuration.
func (o *Outbox) Stats() []Stats {
	list := make([]Stats, len(o.order))
	for i, w := range o.order {
		list[i] = Stats{w.Name, w.delivered.Load(), w.failed.Load(), w.dropped.Load()}
	}
	return list
}
