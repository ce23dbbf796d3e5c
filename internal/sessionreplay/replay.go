// Package sessionreplay runs an agent against the recorded journal of its session alone, to find
// the first request that it makes otherwise.
//
// A [Replay] serves the API to one process of the agent, as if the process were the session's next
// life. It is the API that servers have, so the same request finds the same recorded answer. But
// what a server would add to the journal is a difference here: nothing is sent, and nothing is
// written where the session is stored. The journal ends for the replay where the session was over
// for its agent: before it was committed or aborted.
//
//	r, err := sessionreplay.New(ctx, sessionreplay.Config{Session: id, Records: records, Source: source})
//	server := http.Server{Handler: r.Handler()}
//	… run the agent with r.Token(), until it ends or r.Over() is closed …
//	d := r.Result().Difference
package sessionreplay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/catalog"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds"
	"recourse/saga/kinds/ask"
	"recourse/saga/machine"
)

// Source reads what a session's journal refers to.
type Source interface {
	// Action returns the document of one version of an action. Error: journal.ErrNotFound.
	Action(ctx context.Context, name string, version int) ([]byte, error)
	// Ask returns the contents of a request to a model: the request's body, nil if it is not
	// stored, and the answer, nil if there is none or it was erased.
	Ask(ctx context.Context, path string) (request, answer []byte, err error)
}

// Config configures a Replay.
type Config struct {
	Session uuid.UUID
	Records []journal.Record // all of the session's, from the first on
	Source  Source
	Version string // of the program
	// Quiet is how long an agent may do nothing that the replay sees after it has asked for a step
	// whose end the journal does not have; 0: 30s.
	Quiet time.Duration
}

// Errors of New.
var (
	ErrNoSession = errors.New("it is a saga, not a session: an agent has made none of its requests")
	ErrNothing   = errors.New("no process of an agent has asked for anything in this session")
)

// Replay replays one session. Its methods may be called concurrently.
type Replay struct {
	ctx    context.Context
	cfg    Config
	def    *saga.Definition
	begin  []journal.Record // up to where the session was over for its agent
	end    journal.Kind     // of the record after them; "": there is none
	secret string
	over   chan struct{} // closed when nothing more can be found
	quiet  time.Duration

	mu      sync.Mutex
	machine *machine.Machine // guarded by mu
	records []journal.Record // guarded by mu

	track tracker
}

var (
	_ api.Replay = (*Replay)(nil)
	_ api.Engine = engine{}
)

// New returns a replay of a session. ctx bounds the reads from the source. Errors: those above,
// saga.ErrUnusable, and those of the source.
func New(ctx context.Context, cfg Config) (*Replay, error) {
	started, err := history.Started(cfg.Records)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", cfg.Session, err)
	}
	if started.Session == nil {
		return nil, ErrNoSession
	}
	r := &Replay{ctx: ctx, cfg: cfg, secret: api.NewSecret(), over: make(chan struct{}), quiet: cfg.Quiet}
	if r.quiet == 0 {
		r.quiet = 30 * time.Second
	}
	r.def, err = catalog.New(r.store(), catalog.Options{Kinds: kinds.All()}).Of(ctx, &started)
	if err != nil {
		return nil, err
	}
	if err := r.cut(); err != nil {
		return nil, err
	}
	if err := r.track.read(r.begin); err != nil {
		return nil, err
	}
	if !r.track.own() {
		return nil, ErrNothing
	}
	var attached journal.Record
	if r.machine, attached, err = r.until(len(r.begin)); err != nil {
		return nil, err
	}
	r.records = slices.Concat(r.begin, []journal.Record{attached})
	return r, nil
}

// cut finds the record that ended the agent's work.
func (r *Replay) cut() error {
	m := machine.New(r.def, r.cfg.Session)
	for i := range r.cfg.Records {
		if err := m.Apply(r.cfg.Records[i]); err != nil {
			return fmt.Errorf("session %s: %w", r.cfg.Session, err)
		}
		if m.Closed() {
			r.begin, r.end = r.cfg.Records[:i], r.cfg.Records[i].Kind
			return nil
		}
	}
	r.begin = r.cfg.Records
	return nil
}

// until returns the machine of the session after its first records and one that begins a new life.
func (r *Replay) until(n int) (*machine.Machine, journal.Record, error) {
	m, err := machine.Replay(r.def, r.cfg.Session, r.begin[:n])
	if err != nil {
		return nil, journal.Record{}, err
	}
	message, err := uuid.NewV4()
	if err != nil {
		return nil, journal.Record{}, err
	}
	_, previous, _ := m.Life()
	d, refusal := m.Attach(message, saga.Attach{Holder: writer, Token: api.HashKey(r.secret), Previous: previous})
	if refusal != nil {
		return nil, journal.Record{}, refusal
	}
	attached, err := m.Append(d, time.Now(), writer)
	return m, attached, err
}

// writer is the node of the records that a replay adds for itself.
const writer = "replay"

// Handler serves the API to the agent. The token is the only credential that it accepts.
func (r *Replay) Handler() http.Handler {
	s := r.store()
	return api.New(api.Config{
		Store: s, Catalog: catalog.New(s, catalog.Options{Kinds: kinds.All()}), Engine: engine{r}, Replay: r,
		RequireKeys: true, Version: r.cfg.Version, Done: r.over, Limits: api.Limits{Poll: 20 * time.Millisecond},
	})
}

// Token returns the token of the replayed life.
func (r *Replay) Token() string { return api.Token(r.cfg.Session, r.secret) }

// Secret returns the secret in the token.
func (r *Replay) Secret() string { return r.secret }

// Over is closed when the first difference is found, when the agent has come to the end of the
// journal, or when the replay cannot go on. Then the agent's process can be stopped.
func (r *Replay) Over() <-chan struct{} { return r.over }

func (r *Replay) store() *store { return &store{Store: memory.New(memory.Config{}), r: r} }

// append adds a record for the replay's own life.
func (r *Replay) append(message uuid.UUID, c saga.Command) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.machine.Validate(message, c)
	if err != nil || d.Kind == "" {
		return err
	}
	if err := r.add(d); err != nil {
		return err
	}
	for r.machine.Committed() && !r.machine.Status().Terminal() {
		ds := r.machine.Decide()
		if len(ds) == 0 {
			break
		}
		w, ok := ds[0].(machine.Write)
		if !ok {
			break
		}
		if err := r.add(w.Record); err != nil {
			return err
		}
	}
	return nil
}

// add appends a draft. r.mu is held.
func (r *Replay) add(d machine.Draft) error {
	rec, err := r.machine.Append(d, time.Now(), writer)
	if err == nil {
		r.records = append(r.records, rec)
	}
	return err
}

// ask returns the contents of a request to a model.
func (r *Replay) ask(path string) (request, answer []byte, _ error) {
	request, answer, err := r.cfg.Source.Ask(r.ctx, path)
	if err != nil {
		return nil, nil, fmt.Errorf("request %s of the session: %w", path, err)
	}
	return request, answer, nil
}

// answered returns the recorded answer with this hash, packed; nil if there is none.
func (r *Replay) answered(hash [32]byte) (*journal.Blob, error) {
	path := r.track.answers[hash]
	if path == "" {
		return nil, nil
	}
	_, answer, err := r.ask(path)
	if err == nil && answer == nil {
		err = fmt.Errorf("the answer to %s was erased", path)
	}
	if err != nil {
		r.fail(err)
		return nil, err
	}
	b := ask.Pack(answer)
	if b.Hash != hash {
		err := fmt.Errorf("the answer to %s is no text, and cannot be read exactly", path)
		r.fail(err)
		return nil, err
	}
	return &b, nil
}
