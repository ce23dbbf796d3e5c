package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Floor is the program without an engine: it handles POST /v1/sagas by playing a script. It makes
// the engine's requests and as many durable appends, and stores only the responses.
type Floor struct {
	scripts map[string]Script // by definition
	stub    string
	client  *http.Client
	log     *appender
}

// NewFloor returns a floor with a database of its own at dsn (a SQLite file or a Postgres URL),
// which sends to the stub at url.
func NewFloor(ctx context.Context, dsn, url string, scripts map[string]Script) (*Floor, error) {
	w, err := openWriter(ctx, dsn)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	return &Floor{scripts: scripts, stub: url, client: &http.Client{Transport: t, Timeout: 30 * time.Second}, log: newAppender(w)}, nil
}

// ServeHTTP implements http.Handler.
func (f *Floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/commits" {
		_, _ = fmt.Fprint(w, f.log.commits.Load(), " ", f.log.took.Load())
		return
	}
	var start struct {
		Definition string
		Input      json.RawMessage
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &start)
	}
	sc, ok := f.scripts[start.Definition]
	if err != nil || !ok {
		http.Error(w, "unknown definition", http.StatusBadRequest)
		return
	}
	id, err := uuid.NewV7()
	if err == nil {
		err = f.play(r.Context(), sc, id, start.Input)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"id":"%s","status":"%s"}`, id, sc.Ends)
}

// play runs a saga: each append has the outcome of the request before it, and the intent of the
// next.
func (f *Floor) play(ctx context.Context, sc Script, id uuid.UUID, input []byte) error {
	made := make(map[string]string) // the ids of effects, by step
	last := event{kind: eventStarted, body: input}
	e := entry{saga: id, events: make([]event, 2), done: make(chan error, 1)}
	for i, st := range sc.Stages {
		step := int16(i)
		e.events[0], e.events[1] = last, event{step: step, kind: eventIntent}
		if st.Send == nil {
			e.events[1].kind = eventEnded
		}
		if err := f.log.append(&e); err != nil || st.Send == nil {
			return err
		}
		body, err := f.send(ctx, id, st.Send, made[st.Send.Step])
		if err != nil {
			return err
		}
		if !st.Send.Undo {
			var answer struct{ ID string }
			if err := json.Unmarshal(body, &answer); err != nil {
				return err
			}
			made[st.Send.Step] = answer.ID
		}
		last = event{step: step, kind: eventOutcome, body: body}
	}
	return nil
}

// send makes one request, and returns the body of the response.
func (f *Floor) send(ctx context.Context, id uuid.UUID, s *Send, effect string) ([]byte, error) {
	path := s.Path
	if s.Undo {
		path += effect
	}
	r, err := http.NewRequestWithContext(ctx, s.Method, f.stub+path, bytes.NewReader(s.Body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", uuid.NewV5(id, s.Method+s.Path).String())
	resp, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// appender is group commit only: entries that arrive while a commit is in flight form the next one.
type appender struct {
	w       writer
	queue   chan *entry
	commits atomic.Int64
	took    atomic.Int64 // nanoseconds
}

// maxBatch is the same as the engine's.
const maxBatch = 512

func newAppender(w writer) *appender {
	a := &appender{w: w, queue: make(chan *entry, 4096)}
	go a.run()
	return a
}

// append returns when the entry is durable. The entry can be used again then.
func (a *appender) append(e *entry) error {
	a.queue <- e
	return <-e.done
}

func (a *appender) run() {
	for e := range a.queue {
		batch := []*entry{e}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case e := <-a.queue:
				batch = append(batch, e)
			default:
				more = false
			}
		}
		began := time.Now()
		err := a.w.write(batch)
		a.took.Add(int64(time.Since(began)))
		a.commits.Add(1)
		for _, e := range batch {
			e.done <- err
		}
	}
}
