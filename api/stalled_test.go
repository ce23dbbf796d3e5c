package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
)

// Stalls are listed, oldest first, and counted, until their sagas have ended.
func TestStalled(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: tasks\nsteps:\n  - {id: a, task: ocr}\n")
		since := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
		var want []stalledView
		for i, kind := range []string{journal.StallNoWorker, journal.StallUnclaimed, journal.StallNoWorker} {
			id := uuid.Must(uuid.FromString(x.do("POST", "/v1/sagas", `{"definition": "tasks"}`).want(201).saga().ID))
			f := journal.Stall{Saga: id, Kind: kind, Since: since.Add(time.Duration(i) * time.Second), Why: "so"}
			if kind == journal.StallNoWorker {
				f.Path = "a"
			}
			f.ID = journal.StallID(id, f.Kind, f.Path, f.Since)
			if _, err := x.store.NoteStalls(t.Context(), []journal.StallNotice{{Stall: f}}, time.Hour); err != nil {
				t.Fatal(err)
			}
			want = append(want, stalledView{ID: f.ID.String(), Saga: id.String(), Definition: "tasks", Version: "v1", Kind: kind, Path: f.Path, Since: saga.Time{Time: f.Since}, Why: "so"})
		}
		if d := cmp.Diff(want, walk[stalledView](x, "/v1/stalled", 2)); d != "" {
			t.Errorf("all (-want +got):\n%s", d)
		}
		if d := cmp.Diff(want[1:2], walk[stalledView](x, "/v1/stalled?kind=unclaimed", 2)); d != "" {
			t.Errorf("a kind (-want +got):\n%s", d)
		}
		if d := cmp.Diff(want[2:], walk[stalledView](x, "/v1/stalled?saga="+want[2].Saga, 2)); d != "" {
			t.Errorf("a saga (-want +got):\n%s", d)
		}
		metrics := string(x.do("GET", "/metrics", "").want(200).Body)
		for _, sample := range []string{"recourse_stalled_sagas 1", `recourse_stalled_steps{kind="no_worker"} 2`, `recourse_stalled_steps{kind="no_slot"} 0`} {
			if !strings.Contains(metrics, "\n"+sample+"\n") {
				t.Errorf("no %q in /metrics", sample)
			}
		}
		x.do("POST", "/v1/sagas/"+want[0].Saga+"/cancel", "").want(202)
		x.until(want[0].Saga, is(saga.Compensated))
		if d := cmp.Diff(want[1:], walk[stalledView](x, "/v1/stalled", 2)); d != "" {
			t.Errorf("once one has ended (-want +got):\n%s", d)
		}
	})
}

// Each kind that the document names can be listed, and those of steps are counted.
func TestStalledKinds(t *testing.T) {
	document, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("name: kind, in: query, description: \"For sagas: (.*); for steps: (.*)\\.\"").FindStringSubmatch(string(document))
	if named == nil {
		t.Fatal("the document does not name the kinds")
	}
	x := newFixture(t)
	metrics := string(x.do("GET", "/metrics", "").want(200).Body)
	for i, kinds := range named[1:] {
		for kind := range strings.SplitSeq(kinds, ", ") {
			kind = strings.Trim(kind, "`")
			x.do("GET", "/v1/stalled?kind="+kind, "").want(200)
			if sample := `recourse_stalled_steps{kind="` + kind + `"} 0`; strings.Contains(metrics, "\n"+sample+"\n") != (i == 1) {
				t.Errorf("/metrics lacks %q, or should not have it", sample)
			}
		}
	}
}

func TestStalledRefused(t *testing.T) {
	x := newFixture(t)
	for _, query := range []string{"?kind=lazy", "?kind=worker_silent", "?saga=x", "?cursor=" + pack("inbox", "1", uuid.Nil.String()), "?cursor=" + pack("stalled", "x", "y"), "?limit=0", "?status=x"} {
		x.do("GET", "/v1/stalled"+query, "", outside).problem(400, "invalid_request")
	}
}
