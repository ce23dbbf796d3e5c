package ui

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"recourse/api"
	"recourse/journal/sqlite"
	"recourse/saga"
)

// benchSaga returns a site with a saga of 10,000 steps and a task that no worker claims.
func benchSaga(b *testing.B) (x *site, id string, cfg *Config) {
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "r.db"), sqlite.Options{Migrate: true})
	if err != nil {
		b.Fatal(err)
	}
	x = newSiteOn(b, store, func(_ *api.Config, page *Config) { cfg = page })
	x.publish("saga: many\ninput: {items: [integer]}\nsteps:\n  - id: each\n    foreach: ${input.items}\n    max_items: 10000\n    steps:\n" +
		"      - {id: make, http: \"POST ${vars.things}\", body: {name: \"${item}\"}, compensate: {http: \"POST ${vars.things}/${output.id}/undo\"}}\n" +
		"      - {id: check, set: \"${item}\"}\n  - {id: slow, task: wait, timeout: 1h}\n  - {id: heard, signal: done}\n")
	items, err := json.Marshal(make([]int, 5000))
	if err != nil {
		b.Fatal(err)
	}
	id = x.start("many", `{"items": `+string(items)+`}`)
	for x.saga(id).Status != saga.Waiting { // rarely, since each poll reads the whole journal
		time.Sleep(time.Second)
	}
	return x, id, cfg
}

// BenchmarkSagaPage renders the page of a saga of 10,000 steps without a cache: most of the time is
// spent on reading and applying its journal.
func BenchmarkSagaPage(b *testing.B) {
	_, id, cfg := benchSaga(b)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		New(*cfg).ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/sagas/"+id, nil))
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkSagaGrown renders it again after its journal has grown by a record, as a live page does.
func BenchmarkSagaGrown(b *testing.B) {
	x, id, _ := benchSaga(b)
	x.page("/sagas/" + id).want(200)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		x.rest("POST", "/v1/sagas/"+id+"/signals/done", "1").want(202)
		b.StartTimer()
		x.page("/sagas/" + id).want(200)
	}
}

// BenchmarkSagaRead reads it from the API.
func BenchmarkSagaRead(b *testing.B) {
	x, id, _ := benchSaga(b)
	b.ReportAllocs()
	for b.Loop() {
		x.rest("GET", "/v1/sagas/"+id, "").want(200)
	}
}
