package evidence

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/cloudevent"
	"recourse/internal/notify"
	"recourse/journal"
)

// Store is what a Signer needs of the database.
type Store interface {
	PutEvents(ctx context.Context, events []journal.Event) error
	Fired(ctx context.Context) (map[string]time.Time, error)
	SetFired(ctx context.Context, name string, at time.Time) error
	Nodes(ctx context.Context) ([]journal.NodeInfo, error)
	Saga(ctx context.Context, id uuid.UUID) (journal.Head, error)
	Sagas(ctx context.Context, f journal.Filter) (journal.Listed, error)
	Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error)
}

// Options are the settings of a Signer that the config file has.
type Options struct {
	Key   ed25519.PrivateKey
	Every time.Duration // between anchors
	File  string        // each anchor is a line of this file; "": no file
	Sinks []string      // each anchor is an event for these sinks
}

// Config configures a Signer.
type Config struct {
	Options
	Store Store
	Node  func() string    // the node id of this process
	Now   func() time.Time // the store's clock
	Log   *slog.Logger     // discard
}

// mark is the schedule that says when a process of the database last stored an anchor. It is no
// cron trigger: those have names with a slash.
const mark = "~evidence"

// Signer signs the ends of the journals that a node appends to. It is an engine.Observer.
type Signer struct {
	cfg   Config
	chain *Chain
	heads Heads
	half  chan struct{} // receives a value if the next anchor should not wait

	// Only Run uses the fields below, and Close after it.
	ran     bool
	begun   bool // what earlier processes left is among the heads, or anchored
	pending []unstored
	nodes   map[string]bool // those with a lease at the last look
	looked  time.Time       // when that was
	failing bool            // the last try failed, and was logged
	full    bool            // heads are dropped, and that was logged
	dropped int             // how many were dropped before the last success
}

// unstored is a signed anchor that is not yet everywhere where it should be.
type unstored struct {
	id     uuid.UUID // of its event
	at     time.Time
	line   Line
	inFile bool
}

// NewSigner returns a Signer that does nothing until Run.
func NewSigner(c Config) *Signer {
	c.Every = cmp.Or(c.Every, time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Signer{cfg: c, chain: NewChain(c.Key, uuid.Must(uuid.NewV7()).String()), half: make(chan struct{}, 1)}
}

// Acquired implements engine.Observer. The node that ran the saga before may have died before it
// anchored the journal. The end of a saga is covered by the search for what a dead node left.
func (s *Signer) Acquired(g engine.Growth) {
	if n := len(g.Records); n > 0 && !g.Machine.Ended() {
		s.add(Head{Saga: g.Saga, Seq: g.Records[n-1].Seq, Hash: g.Records[n-1].Hash})
	}
}

// Appended implements engine.Observer.
func (s *Signer) Appended(g engine.Growth) {
	last := g.Records[len(g.Records)-1]
	s.add(Head{Saga: g.Saga, Seq: last.Seq, Hash: last.Hash, DeleteAt: g.DeleteAt})
}

func (s *Signer) add(h Head) {
	if !s.heads.Add(h) {
		return
	}
	select {
	case s.half <- struct{}{}:
	default:
	}
}

// Released implements engine.Observer.
func (*Signer) Released(uuid.UUID) {}

// Run signs anchors until ctx is done.
func (s *Signer) Run(ctx context.Context) {
	s.ran = true
	s.report(ctx, s.look(ctx))
	every := time.NewTicker(s.cfg.Every)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-s.half:
		}
		s.report(ctx, s.Once(ctx))
	}
}

// closing is how long the last anchor may take.
const closing = 10 * time.Second

// Close signs what was appended since the last anchor, and says that the process has ended. Call it
// after the end of the engine and of Run. It does nothing if Run was never called.
func (s *Signer) Close() {
	if !s.ran {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err := s.store(ctx)
	if err == nil {
		s.sign(true)
		err = s.store(ctx)
	}
	s.report(ctx, err)
}

// report logs the first of several errors in a row, and their end.
func (s *Signer) report(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil:
		return
	case err != nil && !s.failing:
		s.cfg.Log.Error("could not store an anchor, so that later changes of journals would not be evident; the node will retry", "error", err)
	case err == nil && s.failing:
		s.cfg.Log.Info("recovered: anchors are stored again")
	}
	s.failing = err != nil
	switch dropped := s.heads.Dropped() - s.dropped; {
	case dropped == 0:
	case err == nil:
		s.cfg.Log.Warn("anchors leave out ends of journals that were appended while none could be stored: later changes of them are evident only if their sagas have continued since", "ends", dropped)
		s.dropped, s.full = s.dropped+dropped, false
	case !s.full:
		s.cfg.Log.Error("no more ends of journals wait for an anchor: those of other sagas are left out until anchors can be stored", "waiting", maxHeads)
		s.full = true
	}
}

// Once signs the heads that were collected, and stores the anchors. While earlier ones cannot be
// stored it signs no others, and heads wait: a later head of a saga takes the place of an earlier.
// Those that find no room are dropped.
func (s *Signer) Once(ctx context.Context) error {
	if err := s.store(ctx); err != nil {
		return err
	}
	err := s.look(ctx) // what is found goes into this anchor
	s.sign(false)
	return cmp.Or(s.store(ctx), err)
}

// sign signs all collected heads. Without heads there is an anchor, too: it shows that the process
// was there, and that nothing is missing at the end of the chain.
func (s *Signer) sign(last bool) {
	heads, now := s.heads.Take(), s.cfg.Now()
	for first := true; first || len(heads) > 0; first = false {
		n := min(len(heads), MaxLeaves)
		line := s.chain.Sign(s.cfg.Node(), now, heads[:n], last && n == len(heads))
		heads = heads[n:]
		s.pending = append(s.pending, unstored{id: uuid.Must(uuid.NewV7()), at: now, line: line})
	}
}

// store stores the pending anchors, in order. A sink may get one twice, under the same id.
func (s *Signer) store(ctx context.Context) error {
	for len(s.pending) > 0 {
		p := &s.pending[0]
		text, err := journal.Encode(p.line)
		if err != nil {
			return err
		}
		if s.cfg.File != "" && !p.inFile {
			if err := appendLine(s.cfg.File, text); err != nil {
				return err
			}
			p.inFile = true
		}
		event := cloudevent.Event{ID: p.id, Type: notify.AnchorEvent, Subject: s.chain.name, At: p.at, Data: text}
		var events []journal.Event
		for _, sink := range s.cfg.Sinks {
			events = append(events, journal.Event{ID: p.id, Sink: sink, Data: event.Encode()})
		}
		if err := s.cfg.Store.PutEvents(ctx, events); err != nil {
			return err
		}
		if s.begun { // before, the mark says where to look for what others have left
			if err := s.cfg.Store.SetFired(ctx, mark, p.at); err != nil {
				return err
			}
		}
		s.pending = s.pending[1:]
	}
	return nil
}

// appendLine appends a line to a file, and syncs it. If an earlier write was cut in the middle,
// what it has left stays on a line of its own.
func appendLine(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("the file of anchors: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("the file of anchors: %w", err)
	}
	line := slices.Concat(text, []byte("\n"))
	last := []byte("\n")
	if size := info.Size(); size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return fmt.Errorf("the file of anchors: %w", err)
		}
	}
	if last[0] != '\n' {
		line = append([]byte("\n"), line...)
	}
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("the file of anchors: %w", err)
	}
	return f.Sync()
}
