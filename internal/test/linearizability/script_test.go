package linearizability_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"recourse/internal/test/linearizability"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// script is a short history of one client, in which nothing fails: two sagas, one started
// thrice, paused, patched and resumed; one cancelled.
func script(t *testing.T, wrap func(http.Handler) http.Handler) ([]linearizability.Op, *linearizability.Truth) {
	t.Helper()
	c := newCluster(t, setup{stores: []journal.Store{memory.New(memory.Config{})}, log: t.Output(), wrap: wrap})
	r := linearizability.NewRecorder()
	cl := &linearizability.Client{Recorder: r, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	to, ctx := c.target(), t.Context()
	command := func(key, id string, o saga.Command) linearizability.Op {
		o.Reason = o.Do.Verb() + "-" + key
		if o.IfSeq != 0 {
			o.Reason += "-if"
		}
		return cl.Command(ctx, to, key, id, o)
	}

	id := cl.Start(ctx, to, "one", "trip", 1).Answer.Saga
	command("p", id, saga.Command{Do: saga.Pause{}})
	cl.Start(ctx, to, "one", "trip", 1)
	cl.Start(ctx, to, "one", "trip", 2)
	seq := cl.Get(ctx, to, id, 0, "").Answer.Seq
	for last := int64(-1); seq != last; { // the attempt that was in flight when the saga was paused ends
		last = seq
		<-time.After(50 * time.Millisecond)
		seq = cl.Get(ctx, to, id, 0, "").Answer.Seq
	}
	cl.Command(ctx, to, "", id, saga.Command{Do: saga.Patch{Labels: map[string]string{"l": "1"}}, Reason: "patch-1", IfSeq: seq})
	cl.Get(ctx, to, id, seq, "")
	cl.Command(ctx, to, "", id, saga.Command{Do: saga.Patch{Labels: map[string]string{"l": "2"}}, Reason: "patch-2", IfSeq: seq})
	cl.Journal(ctx, to, id, 0, 100, false)
	command("r", id, saga.Command{Do: saga.Resume{}})
	command("r", id, saga.Command{Do: saga.Resume{}})
	command("r2", id, saga.Command{Do: saga.Resume{}})
	cl.Get(ctx, to, id, 0, "wait=1")
	cl.Journal(ctx, to, id, 2, 100, true)

	two := cl.Start(ctx, to, "two", "trip", 3).Answer.Saga
	command("c", two, saga.Command{Do: saga.Cancel{}})
	cl.Get(ctx, to, two, 0, "wait=1")
	return r.Ops(), c.rest()
}

// A correct history has no violations.
func TestScriptPasses(t *testing.T) {
	ops, truth := script(t, nil)
	report(t, linearizability.Check(ops, truth), 5)
	want := map[int]bool{200: true, 201: true, 202: true, 409: true, 412: true, 422: true}
	for _, o := range ops {
		delete(want, o.Answer.Status)
	}
	if len(want) > 0 {
		t.Errorf("the script does not reach the answers %v", want)
	}
}

// middle is a handler between client and API.
type middle func(next http.Handler, w http.ResponseWriter, r *http.Request)

func (m middle) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m(next, w, r) })
}

// stale repeats the first response to a saga's GETs.
func stale() middle {
	var mu sync.Mutex
	kept := map[string]*httptest.ResponseRecorder{}
	return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || strings.HasSuffix(r.URL.Path, "/journal") {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if kept[r.URL.Path] == nil {
			kept[r.URL.Path] = httptest.NewRecorder()
			next.ServeHTTP(kept[r.URL.Path], r)
		}
		copyAnswer(w, kept[r.URL.Path])
	}
}

func copyAnswer(w http.ResponseWriter, a *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), a.Header())
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes())
}

// swallow acknowledges cancels without doing anything.
func swallow(next http.Handler, w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutSuffix(r.URL.Path, "/cancel")
	if !ok {
		next.ServeHTTP(w, r)
		return
	}
	get := httptest.NewRequest("GET", path, nil)
	get.Host = r.Host
	a := httptest.NewRecorder()
	next.ServeHTTP(a, get)
	a.Code = http.StatusAccepted
	copyAnswer(w, a)
}

// without takes a header of some requests away, or sets it.
func without(method, suffix, header, value string) middle {
	return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			r.Header.Del(header)
			if value != "" {
				r.Header.Set(header, value)
			}
		}
		next.ServeHTTP(w, r)
	}
}

// relabelled changes what a GET shows.
func relabelled(next http.Handler, w http.ResponseWriter, r *http.Request) {
	a := httptest.NewRecorder()
	next.ServeHTTP(a, r)
	if r.Method == "GET" {
		a.Body = bytes.NewBufferString(strings.ReplaceAll(a.Body.String(), `"running"`, `"waiting"`))
		a.Body = bytes.NewBufferString(strings.ReplaceAll(a.Body.String(), `"labels":{}`, `"labels":{"l":"9"}`))
	}
	copyAnswer(w, a)
}

// forgetful leaves the last record out of every journal.
func forgetful(next http.Handler, w http.ResponseWriter, r *http.Request) {
	a := httptest.NewRecorder()
	next.ServeHTTP(a, r)
	var page struct {
		Data []json.RawMessage `json:"data"`
	}
	if strings.HasSuffix(r.URL.Path, "/journal") && json.Unmarshal(a.Body.Bytes(), &page) == nil && len(page.Data) > 1 {
		b, _ := journal.Encode(map[string]any{"data": page.Data[:1]})
		a.Body = bytes.NewBuffer(b)
	}
	copyAnswer(w, a)
}

// twice carries out a resume for each request, whatever its key.
func twice() middle {
	var mu sync.Mutex
	resumed := false
	return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutSuffix(r.URL.Path, "/resume"); ok {
			mu.Lock()
			defer mu.Unlock()
			if r.Header.Del("Idempotency-Key"); resumed {
				pause := httptest.NewRequest("POST", path+"/pause", nil)
				pause.Host = r.Host
				next.ServeHTTP(httptest.NewRecorder(), pause)
			}
			resumed = true
		}
		next.ServeHTTP(w, r)
	}
}

// A command with a key that has two effects is detected, even if its first response was lost.
func TestSecondEffectIsCaught(t *testing.T) {
	ops, truth := script(t, twice().wrap)
	first := slices.IndexFunc(ops, func(o linearizability.Op) bool { return o.Verb() == "resume" })
	ops[first].Answer = linearizability.Answer{}
	if !slices.ContainsFunc(linearizability.Check(ops, truth), func(v linearizability.Violation) bool { return strings.Contains(v.What, "was carried out 2 times") }) {
		t.Error("not noticed")
	}
}

// An API that breaks its contract is detected.
func TestBadServersAreCaught(t *testing.T) {
	for name, m := range map[string]middle{
		"GET answers from a stale cache":         stale(),
		"a cancel is acknowledged and forgotten": swallow,
		"starts lose their key":                  without("POST", "/sagas", "Idempotency-Key", ""),
		"commands lose their key":                without("POST", "/resume", "Idempotency-Key", ""),
		"a patch is not conditional":             without("PATCH", "", "If-Match", "*"),
		"GET shows what never was":               relabelled,
		"a journal is short":                     forgetful,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops, truth := script(t, m.wrap)
			found := linearizability.Check(ops, truth)
			if len(found) == 0 {
				t.Error("not noticed")
			}
			for _, v := range found {
				t.Log(v)
			}
		})
	}
}
