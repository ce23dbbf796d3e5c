package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
)

// finished runs a saga to its end and returns its id.
func finished(x *fixture) string {
	x.t.Helper()
	x.publish(orderDef)
	return x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 19.10, "note": "a<b>&\u2028\u0000"}}`, header{"Prefer", "wait=20"}).want(201).saga().ID
}

func ndjson(t *testing.T, body []byte) []journal.Record {
	t.Helper()
	var list []journal.Record
	for line := range bytes.Lines(body) {
		var r journal.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

// The hash chain is valid in every representation.
func TestJournalVerifies(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		id := finished(x)
		path := "/v1/sagas/" + id + "/journal"
		lines := ndjson(t, x.do("GET", path, "", header{"Accept", typeNDJSON}).want(200).Body)
		if err := journal.Verify(uuid.Must(uuid.FromString(id)), nil, 1, lines); err != nil {
			t.Errorf("over the wire: %v", err)
		}
		if len(lines) < 6 || lines[0].Kind != journal.Started || lines[len(lines)-1].Kind != journal.Finished {
			t.Errorf("%d records", len(lines))
		}
		var all page[journal.Record]
		x.do("GET", path, "").want(200).into(&all)
		if d := cmp.Diff(lines, all.Data); d != "" || all.Next != "" {
			t.Errorf("JSON is not NDJSON: %s %q", d, all.Next)
		}
		var walked []journal.Record
		for cursor := "?limit=2"; cursor != ""; {
			var p page[journal.Record]
			x.do("GET", path+cursor, "").want(200).into(&p)
			if len(p.Data) == 0 || len(p.Data) > 2 {
				t.Fatalf("a page of %d", len(p.Data))
			}
			walked = append(walked, p.Data...)
			cursor = ""
			if p.Next != "" {
				cursor = "?limit=2&cursor=" + p.Next
			}
		}
		if d := cmp.Diff(lines, walked); d != "" {
			t.Errorf("walked: %s", d)
		}
		if got := ndjson(t, x.do("GET", path+"?after=2", "", header{"Accept", typeNDJSON}).want(200).Body); len(got) != len(lines)-2 || got[0].Seq != 3 {
			t.Errorf("after 2: %d records", len(got))
		}
		// A changed byte is detected.
		lines[2].Data = bytes.Replace(lines[2].Data, []byte(`"`), []byte(`'`), 1)
		if journal.Verify(uuid.Must(uuid.FromString(id)), nil, 1, lines) == nil {
			t.Error("a changed record passes")
		}
	})
}

func TestJournalRefused(t *testing.T) {
	x := newFixture(t)
	id := finished(x)
	path := "/v1/sagas/" + id + "/journal"
	x.do("GET", path, "", header{"Accept", "image/png"}).problem(406, "not_acceptable")
	x.do("GET", path+"?after=-1", "", outside).problem(400, "invalid_request")
	x.do("GET", path+"?after=x", "", outside).problem(400, "invalid_request")
	x.do("GET", path+"?limit=0", "", outside).problem(400, "invalid_request")
	x.do("GET", path+"?afer=1", "", outside).problem(400, "invalid_request")
	x.do("GET", path, "", header{"Accept", typeStream}, header{"Last-Event-ID", "x"}, outside).problem(400, "invalid_request")
	// A stream after a record that does not exist would wait forever.
	x.do("GET", path, "", header{"Accept", typeStream}, header{"Last-Event-ID", "4711"}).problem(400, "invalid_request")
	for _, accept := range []string{typeNDJSON, typeStream, "application/json"} {
		x.do("GET", "/v1/sagas/01a1fd50-0000-7000-8000-000000000000/journal", "", header{"Accept", accept}).problem(404, "saga_not_found")
	}
}

// events opens an event stream and returns what arrives, until it ends or enough returns true.
func events(t *testing.T, url, last string, enough func(journal.Record) bool) (list []journal.Record, comments int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", typeStream)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != typeStream || resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	in := bufio.NewScanner(resp.Body)
	id := ""
	for in.Scan() {
		switch line := in.Text(); {
		case strings.HasPrefix(line, ":"):
			comments++
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data: "):
			var r journal.Record
			if err := json.Unmarshal([]byte(line[6:]), &r); err != nil {
				t.Fatal(err)
			}
			if id != strconv.FormatInt(r.Seq, 10) {
				t.Errorf("id %s of record %d", id, r.Seq)
			}
			if list = append(list, r); enough(r) {
				return list, comments
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return list, comments
}

func never(journal.Record) bool { return false }

func TestStream(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		url := x.url + "/v1/sagas/" + id + "/journal"
		// Read a part, disconnect, and reconnect with the last id: no record is missing, and none
		// comes twice.
		first, _ := events(t, url, "", func(r journal.Record) bool { return r.Seq == 2 })
		rest := make(chan []journal.Record, 1)
		go func() {
			list, _ := events(t, url, "2", never)
			rest <- list
		}()
		x.do("POST", "/v1/sagas/"+id+"/pause", "").want(202)
		x.do("POST", "/v1/sagas/"+id+"/resume", "").want(202)
		x.do("POST", "/v1/sagas/"+id+"/cancel", "").want(202)
		x.until(id, is(saga.Compensated))
		got := slices.Concat(first, <-rest)
		want := ndjson(t, x.do("GET", "/v1/sagas/"+id+"/journal", "", header{"Accept", typeNDJSON}).want(200).Body)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if err := journal.Verify(uuid.Must(uuid.FromString(id)), nil, 1, got); err != nil {
			t.Error(err)
		}
		// After the end the stream is 204, which stops an EventSource from reconnecting.
		end := strconv.FormatInt(got[len(got)-1].Seq, 10)
		x.do("GET", "/v1/sagas/"+id+"/journal", "", header{"Accept", typeStream}, header{"Last-Event-ID", end}).want(204)
	})
}

func TestStreamHeartbeatAndStop(t *testing.T) {
	done := make(chan struct{})
	x := newFixture(t, func(c *Config) { c.Limits.Heartbeat, c.Done = 5*time.Millisecond, done })
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	resp, err := http.DefaultClient.Do(streamRequest(t, x.url+"/v1/sagas/"+id+"/journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in, stopped := bufio.NewScanner(resp.Body), false
	for in.Scan() {
		if strings.HasPrefix(in.Text(), ":") && !stopped {
			stopped = true
			close(done)
		}
	}
	if !stopped || in.Err() != nil {
		t.Errorf("heartbeat %v, error %v", stopped, in.Err())
	}
}

// A key that was revoked gets no more records: an event stream that it has open ends, as it does
// when a server without keys gets its first one.
func TestStreamOfARevokedKey(t *testing.T) {
	for _, named := range []bool{true, false} {
		x := newFixture(t, func(c *Config) { c.Limits.Heartbeat, c.Limits.KeyPoll = 5*time.Millisecond, 1 })
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req := streamRequest(t, x.url+"/v1/sagas/"+id+"/journal").WithContext(ctx)
		change := func() { addKey(x, "viewer", time.Time{}) }
		if named {
			k, secret := addKey(x, "viewer", time.Time{})
			req.Header.Set("Authorization", "Bearer "+secret)
			change = func() {
				if err := x.store.RevokeKey(t.Context(), k.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		in, changed := bufio.NewScanner(resp.Body), false
		for in.Scan() {
			if strings.HasPrefix(in.Text(), ":") && !changed { // it goes on beyond a heartbeat
				changed = true
				change()
			}
		}
		if !changed || in.Err() != nil {
			t.Errorf("with a key %v: heartbeat %v, error %v", named, changed, in.Err())
		}
	}
}

func streamRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", typeStream)
	return req
}

func TestGetSagaConditional(t *testing.T) {
	x := newFixture(t)
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	path := "/v1/sagas/" + id
	tag := x.do("GET", path, "").want(200).Header.Get("ETag")
	for _, same := range []string{tag, "W/" + tag, `"9", ` + tag, "*"} {
		if a := x.do("GET", path, "", header{"If-None-Match", same}).want(304); len(a.Body) != 0 || a.Header.Get("ETag") != tag {
			t.Errorf("304: %v %s", a.Header, a.Body)
		}
	}
	x.do("GET", path, "", header{"If-None-Match", `"9"`}).want(200)
	// The saga does not change: the wait ends with 304.
	x.do("GET", path, "", header{"If-None-Match", tag}, header{"Prefer", "wait=1"}).want(304)
	changed := make(chan *answer, 1)
	go func() { changed <- x.do("GET", path, "", header{"If-None-Match", tag}, header{"Prefer", "wait=20"}) }()
	x.do("POST", path+"/pause", "").want(202)
	if a := (<-changed).want(200); a.saga().Status != saga.PausedStatus {
		t.Errorf("%s", a.Body)
	}
	x.do("GET", path+"?verbose=1", "", outside).problem(400, "invalid_request")
}
