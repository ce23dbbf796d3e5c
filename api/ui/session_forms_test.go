package ui

import (
	"encoding/json"
	"strings"
	"testing"

	"recourse/api"
	"recourse/saga"
	"recourse/saga/machine"
)

// fieldOf returns the value of a hidden field of a form.
func fieldOf(t *testing.T, page *answer, form, field string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page.body, `id="`+form)
	_, value, ok := strings.Cut(rest, `name="`+field+`" value="`)
	if !ok {
		t.Fatalf("the page has no form %s with the field %s:\n%s", form, field, page.body)
	}
	value, _, _ = strings.Cut(value, `"`)
	return value
}

// A person compares a call with the earlier one that it may repeat, in the inbox.
func TestInboxOfRepetition(t *testing.T) {
	x := newSite(t)
	for _, outcome := range []string{saga.SameEffect, saga.NewEffect} {
		p := x.twoLives("")
		note, _ := json.Marshal(hostile + "\u200b")
		p.do("POST", "/v1/sessions/"+p.id+"/calls", `{"action": "charge", "input": {"order": "a17", "amount": 10, "note": `+string(note)+`}, "wait": "0s"}`).want(202)
		x.until("it is in the inbox", func() bool {
			return strings.Contains(x.rest("GET", "/v1/inbox?kind=repeat&saga="+p.id, "").body, "charge[1]")
		})
		page := x.page("/inbox?kind=repeat&saga=" + p.id).want(200)
		page.has("does the call charge[1] repeat charge[0]?", "Earlier: ", "life 1</span>", "life 2, not sent", "Its output", "/messages/0/content", "#divergence",
			"Does it mean the effect of the earlier call?", "Nothing is sent.").lacks("<script>alert", "<img src=x", "\u202e", "\u200b")
		for _, line := range []string{`<span class="differs">  &#34;order&#34;: &#34;A-17&#34;`, `<span class="differs">  &#34;order&#34;: &#34;a17&#34;`, `<span>  &#34;amount&#34;: 10,`} {
			page.has(line)
		}
		x.post("/sagas/"+p.id+"/steps/charge%5B1%5D/resolve", "outcome", outcome, "reason", "compared", "etag", fieldOf(t, page, "resolve-form-", "etag"), "back", "/inbox").want(303)
		want := machine.CallSucceeded
		x.until("the call has ended", func() bool {
			var v machine.CallView
			_ = json.Unmarshal([]byte(x.rest("GET", "/v1/sessions/"+p.id+"/calls/charge%5B1%5D", "").body), &v)
			return v.Status == want
		})
		x.page("/sagas/"+p.id).want(200).has("Command of a person: resolve as "+outcome, "compared")
	}
	if n := len(x.world.Ledger().Service("pay").Effects()); n != 3 {
		t.Errorf("%d charges, want 3: one in each session, and the one that was resolved as new", n)
	}
}

// A session that has lost its process is resumed or aborted from the inbox.
func TestInboxOfSession(t *testing.T) {
	t.Parallel()
	x := newSite(t, keysRequired)
	x.key("root", "admin")
	p, q := x.lost(), x.lost()
	x.becomes(p.id, saga.Stuck)
	x.becomes(q.id, saga.Stuck)
	x.key("looker", "viewer")
	x.page("/inbox?kind=session").want(200).has("Your role, viewer, may not resume or abort").lacks("session-form-")
	x.post("/inbox/session", "saga", q.id, "etag", "1", "do", "abort", "reason", "x").want(403)
	x.key("ann", "operator")
	page := x.page("/inbox?kind=session&saga=" + p.id).want(200)
	page.has("No process of the agent has come back", "An abort undoes <a", "charge[0]</code>", "What the session has done", "Done:\n- charge[0]", "Resume or abort", "lost session").lacks("<script>alert")
	form := func(do, etag string) []string {
		return []string{"saga", p.id, "etag", etag, "back", "/inbox?kind=session", "do", do, "reason", "typed reason"}
	}
	x.post("/inbox/session", form("abort", "1")...).want(412).has("The session has changed since you opened the page", "typed reason", "Resume or abort")
	x.post("/inbox/session", form("odd", "1")...).want(422).has("Choose what to do")
	etag := fieldOf(t, page, "session-form-", "etag")
	x.post("/inbox/session", form("resume", etag)...).want(303)
	x.becomes(p.id, saga.Waiting)
	x.page("/sagas/"+p.id).want(200).has("The session was resumed", "by ann", "typed reason")
	x.becomes(p.id, saga.Stuck) // it has waited again
	page = x.page("/sagas/" + p.id).want(200).has("Resume or abort")
	if a := x.post("/inbox/session", "saga", p.id, "etag", fieldOf(t, page, "session-form-", "etag"), "back", "/sagas/"+p.id, "do", "abort", "reason", "enough").want(303); a.header.Get("Location") != "/sagas/"+p.id {
		t.Errorf("it leads to %s", a.header.Get("Location"))
	}
	x.becomes(p.id, saga.Compensated)
	x.page("/inbox?kind=session&saga=" + p.id).want(200).lacks("Resume or abort")
}

// lost returns a session that has lost its process, and waits for a person 5 s later.
func (x *site) lost() *process {
	x.t.Helper()
	p := x.session(`, "on_lost": {"wait": "5s"}`)
	note, _ := json.Marshal(hostile)
	p.call("charge", `{"order": "A", "amount": 1, "note": `+string(note)+`}`)
	p.do("POST", "/v1/sessions/"+p.id+"/detach", "").want(200)
	return p
}

// The summary of a session says what stands, and what was undone, as its agent reads it.
func TestSessionSummary(t *testing.T) {
	x := newSite(t)
	p := x.session("")
	for range mostSummed + 2 {
		p.call("charge", `{"order": "`+api.NewSecret()+`", "amount": 1, "note": "<b>"}`)
	}
	p.do("POST", "/v1/sessions/"+p.id+"/calls/charge%5B0%5D/undo", "").want(202)
	x.until("it is undone", func() bool {
		return strings.Contains(x.rest("GET", "/v1/sessions/"+p.id+"/calls/charge%5B0%5D", "").body, `"undone"`)
	})
	x.page("/sagas/"+p.id).want(200).has(`Done</span> <b>9</b>`, `Undone</span> <b>1</b>`, "the last 8 of 9", "→ <code>{&#34;id&#34;:&#34;ch_").lacks("May have happened", "In progress", "<b>\"")
	if a := x.page("/sagas/" + p.id + "/summary.txt").want(200); !strings.Contains(a.body, "Undone:\n- charge[0]") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("%s %s", a.header, a.body)
	}
}
