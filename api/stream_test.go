package api

import (
	"context"
	"io"
	"net/http"
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
