package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
)

// people empty the inbox, and resume paused sagas.
type people struct {
	*clients
	world  *world.Control
	quit   chan struct{}
	seen   world.Ledger
	decide time.Duration // how long they let an entry wait, so that no older request is still on its way
}

func newPeople(c *clients, w *world.Control) *people {
	return &people{clients: c, world: w, quit: make(chan struct{}), decide: 4 * time.Second}
}

// run checks the lists repeatedly.
func (p *people) run() {
	for round := 0; ; round++ {
		select {
		case <-p.quit:
			return
		case <-time.After(200 * time.Millisecond):
		}
		p.inbox()
		if round%5 == 0 {
			p.resume()
		}
	}
}

// leave stops them; a second call does nothing.
func (p *people) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
}

// finish waits until no saga is live, and stops the people. It returns the sagas that are still
// live.
func (p *people) finish(within time.Duration) (left []string) {
	defer p.leave()
	begun := time.Now()
	for ; time.Since(begun) < within; <-time.After(100 * time.Millisecond) {
		if live := p.list("/v1/sagas?status=running,waiting,paused,stuck,compensating&limit=1"); live != nil && len(live) == 0 {
			return nil
		}
	}
	for _, raw := range p.list("/v1/sagas?status=running,waiting,paused,stuck,compensating&limit=20") {
		left = append(left, fmt.Sprintf("after %s this saga has not ended: %s", within, raw))
	}
	return left
}

// list requests the data of a list; nil without a response.
func (p *people) list(path string) []json.RawMessage {
	status, body := p.request("GET", path, nil)
	if status != http.StatusOK {
		return nil
	}
	var page struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		p.t.Errorf("%s: %v", path, err)
	}
	return page.Data
}

func (p *people) resume() {
	for _, raw := range p.list("/v1/sagas?status=paused&limit=20") {
		p.command(sagaOf(p.t, raw), "resume", `{"reason":"nobody else does"}`)
	}
}

// entry is an inbox entry.
type entry struct {
	Kind  string    `json:"kind"`
	Saga  uuid.UUID `json:"saga"`
	Path  string    `json:"path"`
	Since time.Time `json:"since"`
	Way   string    `json:"way"`
	Key   string    `json:"key"`
}

func (p *people) inbox() {
	for _, raw := range p.list("/v1/inbox?limit=50") {
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			p.t.Errorf("%s: %v", raw, err)
		}
		if e.Kind == "in_doubt" && time.Since(e.Since) < p.decide {
			continue
		}
		p.help(e)
	}
}

// help decides one entry after a check of the remote service.
func (p *people) help(e entry) {
	resolve := func(body string) { p.command(e.Saga, "steps/"+e.Path+"/resolve", body) }
	switch {
	case e.Kind == "budget":
		p.patch(e.Saga, `{"budget":{"amount":"1.00","currency":"EUR"},"reason":"go on"}`)
	case e.Path == "":
		p.command(e.Saga, "resume", `{"reason":"look again"}`)
	case e.Kind == "in_doubt":
		if id := p.stands(e.Key); id != "" {
			// The output has the fields that later steps read.
			resolve(fmt.Sprintf(`{"outcome":"succeeded","output":{"id":%q,"price":129.90},"reason":"found it"}`, id))
		} else {
			resolve(`{"outcome":"failed","reason":"not there"}`)
		}
	default:
		resolve(`{"outcome":"retry","reason":"try again"}`)
	}
}

// stands returns the effect that a key has had and that stands, "" for none.
func (p *people) stands(key string) string {
	var after int64
	if n := len(p.seen); n > 0 {
		after = p.seen[n-1].N
	}
	more, err := p.world.Ledger(context.Background(), after, 0)
	if err != nil {
		p.t.Error(err)
	}
	p.seen = append(p.seen, more...)
	for _, e := range p.seen.Live() {
		if e.Key == key {
			return e.EffectID
		}
	}
	return ""
}
