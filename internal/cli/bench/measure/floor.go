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

// Floor is the program without an engine: it handles POST /v1/sagas by playing a script.
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
		err = f.play(r.Context(), sc, id)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"id":"%s","status":"%s"}`, id, sc.Ends)
}

func (f *Floor) play(ctx context.Context, sc Script, id uuid.UUID) error {
	made := make(map[string]string)
	seq := int64(0)
	for _, st := range sc.Stages {
		if err := f.log.append(id, seq, st.Records); err != nil {
			return err
		}
		seq += int64(len(st.Records))
		if st.Send == nil {
			continue
		}
		got, err := f.send(ctx, id, st.Send, made[st.Send.Step])
		if err != nil {
			return err
		}
		made[st.Send.Step] = got
	}
	return nil
}

// send makes one request, and returns the id in its response.
func (f *Floor) send(ctx context.Context, id uuid.UUID, s *Send, effect string) (string, error) {
	path := s.Path
	if s.Undo {
		path += effect
	}
	r, err := http.NewRequestWithContext(ctx, s.Method, f.stub+path, bytes.NewReader(s.Body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", uuid.NewV5(id, s.Method+s.Path).String())
	resp, err := f.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ ID string }
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, &answer)
	}
	return answer.ID, err
}

// appender is group commit only: entries that arrive while a commit is in flight form the next one.
type appender struct {
	w       writer
	queue   chan *entry
	commits atomic.Int64
	took    atomic.Int64 // nanoseconds
}

type entry struct {
	saga  uuid.UUID
	after int64 // the seq before the first record
	rows  []Row
	done  chan error
}

// writer writes entries in one durable transaction.
type writer interface{ write([]*entry) error }

// maxBatch is the same as the engine's.
const maxBatch = 512

func newAppender(w writer) *appender {
	a := &appender{w: w, queue: make(chan *entry, 4096)}
	go a.run()
	return a
}

func (a *appender) append(saga uuid.UUID, after int64, rows []Row) error {
	e := &entry{saga: saga, after: after, rows: rows, done: make(chan error, 1)}
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
