package sessionreplay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// store is what the API reads: the session's journal, the contents that its answers consist of, and
// its actions. The rest is an empty store.
type store struct {
	journal.Store
	r *Replay
}

// Records implements journal.Log.
func (s *store) Records(_ context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if id != s.r.cfg.Session {
		return nil, journal.ErrNotFound
	}
	list := s.r.records
	list = list[min(max(int(after), 0), len(list)):] // the first record has the seq 1
	return list[:min(limit, len(list)):min(limit, len(list))], nil
}

// Blobs implements journal.Blobs.
func (s *store) Blobs(_ context.Context, id uuid.UUID, hashes [][sha256.Size]byte) (list []journal.Blob, _ error) {
	for _, hash := range hashes {
		if id != s.r.cfg.Session {
			break
		}
		b, err := s.r.answered(hash)
		if err != nil {
			return nil, err
		}
		if b != nil {
			list = append(list, *b)
		}
	}
	return list, nil
}

// Document implements journal.Catalog.
func (s *store) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	if kind != catalog.ActionKind || version == 0 {
		return journal.Document{}, journal.ErrNotFound
	}
	source, err := s.r.cfg.Source.Action(ctx, name, version)
	if err != nil {
		return journal.Document{}, fmt.Errorf("action %s@%d: %w", name, version, err)
	}
	sum := sha256.Sum256(source)
	return journal.Document{Kind: kind, Name: name, Version: version, SHA256: hex.EncodeToString(sum[:]), Source: source}, nil
}

// Heartbeat implements journal.Tasks: the lease of the life that replays does not end.
func (s *store) Heartbeat(context.Context, uuid.UUID, uuid.UUID) (journal.TaskLease, error) {
	return journal.TaskLease{Until: time.Now().Add(s.r.def.Session.Lease)}, nil
}

// EndTask implements journal.Tasks: the life ends.
func (s *store) EndTask(context.Context, uuid.UUID, uuid.UUID, string, journal.Message) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	d, ok := s.r.machine.EndLife(s.r.machine.LeaseTask().Attempt, "detach", time.Now())
	if !ok {
		return journal.ErrTaskLost
	}
	return s.r.add(d)
}

// engine carries out what concerns the life that replays, and nothing else.
type engine struct{ r *Replay }

var errReplay = &machine.Refusal{Failure: saga.Failure{Code: "diverged", Title: "this is a replay", Detail: "only the requests of the recorded session have a response: nothing was done"}}

// Start implements api.Engine.
func (engine) Start(context.Context, *saga.Definition, journal.Start, saga.StartedData, bool) (machine.Begun, error) {
	return machine.Begun{}, errReplay
}

// StartAs implements api.Engine.
func (engine) StartAs(context.Context, uuid.UUID, *saga.Definition, journal.Start, saga.StartedData) error {
	return errReplay
}

// Submit implements api.Engine.
func (engine) Submit(context.Context, *saga.Definition, journal.Start, saga.StartedData) (func(context.Context) (uuid.UUID, error), error) {
	return nil, errReplay
}

// Confirm implements api.Engine.
func (engine) Confirm(context.Context) error { return nil }

// Send implements api.Engine.
func (e engine) Send(_ context.Context, m journal.Message) error {
	var c saga.Command
	if err := json.Unmarshal(m.Data, &c); err != nil || m.Kind != saga.CommandMessage || m.Saga != e.r.cfg.Session {
		return errReplay
	}
	return e.r.append(m.ID, c)
}

// Ask implements api.Engine.
func (e engine) Ask(_ context.Context, id, message uuid.UUID, c saga.Command) bool {
	return id == e.r.cfg.Session && e.r.append(message, c) == nil
}

// Watch implements api.Engine: the API polls.
func (engine) Watch(uuid.UUID) (<-chan struct{}, func()) { return nil, func() {} }

// Follow implements api.Engine.
func (engine) Follow(uuid.UUID) *journal.Feed { return journal.NewFeed(func() {}) }

// LastSeq implements api.Engine.
func (engine) LastSeq(uuid.UUID) (int64, bool) { return 0, false }

// Ready implements api.Engine.
func (engine) Ready() bool { return true }

// Now implements api.Engine.
func (engine) Now() time.Time { return time.Now() }
