package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

func TestJournalCache(t *testing.T) {
	var s journalCache
	put := func(id string, records, bytes int) {
		k := s.take(id)
		k.records, k.bytes, k.machine = make([]journal.Record, records), bytes, &machine.Machine{}
		k.give()
	}
	ids := func() (list []string) {
		for _, k := range s.kept {
			list = append(list, k.id)
		}
		return list
	}
	want := func(why string, list ...string) {
		t.Helper()
		if got := ids(); !slices.Equal(got, list) {
			t.Errorf("%s: it keeps %v, want %v", why, got, list)
		}
	}
	put("short", minCachedRecords-1, 1)
	put("heavy", minCachedRecords, maxCachedBytes+1)
	s.take("unread").give()
	want("too short, too long, not followed")
	put("a", minCachedRecords, maxCachedBytes/2)
	put("b", minCachedRecords, maxCachedBytes/2)
	s.take("a").give()
	want("the last used at the end", "b", "a")
	put("c", minCachedRecords, 1)
	want("no room for three", "a", "c")
	put("a", minCachedRecords, maxCachedBytes)
	want("nor for two", "a")
	for i := range maxCached + 1 {
		put(fmt.Sprint(i), minCachedRecords, 1)
	}
	if len(s.kept) != maxCached || slices.Contains(ids(), "a") || slices.Contains(ids(), "0") {
		t.Errorf("it keeps %v", ids())
	}
	k := s.take("1")
	k.forget()
	k.give()
	if slices.Contains(ids(), "1") {
		t.Error("it keeps what was forgotten")
	}
	put("shared", minCachedRecords, 1)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				k := s.take("shared")
				k.add(make([]journal.Record, 1))
				k.give()
			}
		})
	}
	all.Wait()
	if k := s.take("shared"); len(k.records) != minCachedRecords+400 {
		t.Errorf("%d records", len(k.records))
	}
}

// tallied is a store that counts the records that are read, and can change their hashes.
type tallied struct {
	journal.Store
	read    atomic.Int64
	another atomic.Bool
}

func (c *tallied) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	records, err := c.Store.Records(ctx, id, after, limit)
	c.read.Add(int64(len(records)))
	if c.another.Load() {
		records = slices.Clone(records)
		for i := range records {
			records[i].Hash = []byte("another")
		}
	}
	return records, err
}

const longSaga = "saga: long\nsteps:\n  - id: each\n    foreach: ${[" + "1,2,3,4,5,6,7,8,9,10" + "]}\n    steps:\n      - id: inner\n        foreach: ${[" + "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30" +
	"]}\n        steps: [{id: make, set: \"${item}\"}]\n  - {id: told, signal: go}\n  - {id: last, set: 1}\n"

// The next rendering of a long saga reads only new records, and equals a rendering of the whole
// journal.
func TestLongSagaGrows(t *testing.T) {
	store := &tallied{Store: memory.New(memory.Config{})}
	x := newSiteOn(t, store)
	x.publish(longSaga)
	id := x.start("long", `null`)
	x.until("it waits", func() bool { v := x.saga(id); return v.Status == saga.Waiting && v.Seq > minCachedRecords })
	at := "/sagas/" + id
	reads := func() int64 {
		before := store.read.Load()
		x.page(at).want(200).has("told")
		return store.read.Load() - before
	}
	if n := reads(); n < minCachedRecords {
		t.Errorf("the first picture reads %d records", n)
	}
	if n := reads(); n > 20 {
		t.Errorf("the next picture reads %d records", n)
	}
	x.rest("POST", "/v1/sagas/"+id+"/signals/other", "1")
	x.rest("POST", "/v1/sagas/"+id+"/pause", `{"reason": "for a look"}`).want(202)
	x.page(at).want(200).has("for a look", "Resume…", "s-paused").lacks("Pause…")
	x.rest("POST", "/v1/sagas/"+id+"/resume", `{}`).want(202)
	x.rest("POST", "/v1/sagas/"+id+"/signals/go", "1").want(202)
	x.becomes(id, saga.Succeeded)
	grown := x.page(at+"?step=last").want(200).has("s-succeeded", "277 more steps, all well", "340 records left out").body
	store.another.Store(true)
	if n := reads(); n < minCachedRecords {
		t.Errorf("of another journal it reads %d records", n)
	}
	if whole := x.page(at + "?step=last").want(200).body; ageless(whole) != ageless(grown) {
		t.Errorf("drawn from its beginning it is another picture:\n%s\n%s", grown, whole)
	}
}

// ageless removes the lines with ages from a page.
func ageless(page string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(page, "\n"), func(l string) bool { return strings.Contains(l, "ago") }), "\n")
}

func TestPartly(t *testing.T) {
	list := make([]string, listBegin+listEnd+2)
	for i := range list {
		list[i] = fmt.Sprint("s", i+1)
	}
	got := partly(list)
	if len(got) != listBegin+1+listEnd || got[listBegin] != (listed{More: 2}) || got[0] != (listed{N: 1, Text: "s1"}) || got[listBegin+1] != (listed{N: listBegin + 3, Text: fmt.Sprint("s", listBegin+3)}) {
		t.Errorf("it shows %+v", got)
	}
	if got := partly(list[:listBegin+listEnd+1]); len(got) != listBegin+listEnd+1 {
		t.Errorf("one line less for a fold: %+v", got)
	}
}

// A cancel of a saga with many steps lists the first and the last steps that it undoes, and some of
// the remaining effects.
func TestMuchToUndo(t *testing.T) {
	x := newSite(t)
	x.publish("saga: much\nsteps:\n  - id: each\n    foreach: ${[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70]}\n    steps:\n" +
		"      - {id: make, http: \"POST ${vars.things}\", body: {name: t}, compensate: {http: \"DELETE ${vars.things}/${output.id}\"}}\n  - {id: told, signal: go}\n")
	id := x.start("much", `null`)
	x.becomes(id, saga.Waiting)
	at := "/sagas/" + id
	a := x.page(at).want(200).has("70 steps are undone", `<li value="1"><code>each[69].make</code></li>`, "… 10 more …", `<li value="70"><code>each[0].make</code></li>`).lacks("<code>each[25].make</code></li>")
	x.post(at+"/command/cancel", append(a.hidden(at+"/command/cancel"), "mode", "stop")...).want(303)
	x.becomes(id, saga.Failed)
	x.page(at).want(200).has("Remaining effects", "and 10 more", `<code>each[0].make</code></a>`)
}

// Every step of a long saga can be listed, in parts.
func TestPartsOfSteps(t *testing.T) {
	x := newSite(t)
	x.publish(longSaga)
	id := x.start("long", `null`)
	x.until("it waits", func() bool { v := x.saga(id); return v.Status == saga.Waiting && v.Seq > minCachedRecords })
	link := regexp.MustCompile(`href="([^"]+)"( rel="next")?>([0-9]+ more steps|After)<`)
	next := func(a *answer) string {
		if m := link.FindStringSubmatch(a.body); m != nil {
			return html.UnescapeString(m[1])
		}
		return ""
	}
	whole := x.page("/sagas/" + id)
	if at := next(whole); !strings.Contains(at, "from=20") {
		t.Errorf("what is folded is at %q", at)
	}
	row := regexp.MustCompile(`id="step-([^"]+)"`)
	var got, want []string
	for at := "/sagas/" + id + "?from=0"; at != ""; {
		a := x.page(at).want(200)
		for _, m := range row.FindAllStringSubmatch(a.body, -1) {
			got = append(got, html.UnescapeString(m[1]))
		}
		at = next(a)
	}
	var list struct{ Data []machine.StepView }
	if err := json.Unmarshal([]byte(x.rest("GET", "/v1/sagas/"+id+"/steps", "").want(200).body), &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Data {
		want = append(want, s.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("it lists %d steps, want %d: %v", len(got), len(want), got)
	}
	x.page("/sagas/"+id+"?step=inner&from=120").want(200).has("each[3].inner", `rel="prev">Previous`).lacks(`id="step-told"`)
	x.page("/sagas/" + id + "?from=99999").want(200).has("There are no more steps")
}

// Several users see the same saga while it grows.
func TestLongSagaOfMany(t *testing.T) {
	x := newSite(t)
	x.publish(longSaga)
	id := x.start("long", `null`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				if a := x.page("/sagas/" + id); a.status != 200 {
					t.Errorf("status %d: %s", a.status, a.body)
				}
			}
		})
	}
	all.Wait()
}
