package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// shortStore returns one page of records, then fails.
type shortStore struct{ journal.Store }

func (shortStore) Records(_ context.Context, _ uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	if after >= recordsPage {
		return nil, errBroken
	}
	list := make([]journal.Record, limit)
	for i := range list {
		list[i] = journal.Record{Seq: after + int64(i) + 1, At: time.Unix(0, 0), Kind: journal.Operator, Hash: []byte{1}}
	}
	return list, nil
}

// If a journal cannot be read to its end, the connection breaks: a client must not take a part for
// the whole.
func TestStreamsBreakOff(t *testing.T) {
	x := newFixture(t)
	cfg := x.cfg
	cfg.Store = shortStore{cfg.Store}
	url := serve(t, cfg) + "/v1/sagas/01a1fd50-0000-7000-8000-000000000000/journal"
	for _, accept := range []string{typeNDJSON, typeStream} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, then %v; want some, then an error", accept, len(b), err)
		}
	}
}

// gone is a client that leaves with the first event.
type gone struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (g gone) Write(p []byte) (int, error) {
	g.leave()
	return g.ResponseRecorder.Write(p)
}

// A client that leaves while a stream is read is no failure of the stream.
func TestStreamOfAClientThatLeaves(t *testing.T) {
	x := newFixture(t)
	cfg := x.cfg
	cfg.Store = shortStore{cfg.Store}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req := httptest.NewRequestWithContext(ctx, "GET", "/v1/sagas/01a1fd50-0000-7000-8000-000000000000/journal", nil)
	req.Header.Set("Accept", typeStream)
	req.Host = "127.0.0.1"
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("it panics: %v", v)
		}
	}()
	New(cfg).ServeHTTP(gone{httptest.NewRecorder(), leave}, req)
}
