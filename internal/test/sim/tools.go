package sim

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"recourse/examples/world"
	"recourse/saga"
	"recourse/saga/kinds/mcp"
	"recourse/saga/machine"
)

// toolPath is the beginning of the paths under which the tools of the MCP server have their
// effects.
const toolPath = "/tool/"

// hints are what the MCP server says about its tools. All of them honour the key: that a tool is
// called again in doubt shows in the journal.
var hints = map[string]saga.Hint{"plain": saga.HintNone, "undo": saga.HintNone, "same": saga.HintIdempotent, "look": saga.HintRead}

// prepare adds what a process has heard of a tool to the request: see [engine.Preparer].
func (n *node) prepare(_ string, r saga.Request) (saga.Request, bool) {
	if r.Tool == nil || !n.listed {
		return r, false
	}
	return *r.Hinted(hints[r.Tool.Tool]), true
}

// listing adds to an answer what the server says about its tools, which a process asks before its
// first call.
func (n *node) listing(r *saga.Request, answered func(saga.Answer)) func(saga.Answer) {
	if r.Tool == nil {
		return answered
	}
	n.listed = true
	return func(a saga.Answer) {
		a.Hint = hints[r.Tool.Tool]
		answered(a)
	}
}

// target is the place of a request's effects.
func target(r *saga.Request) (*url.URL, error) {
	if r.Tool != nil {
		return &url.URL{Path: toolPath + r.Tool.Tool}, nil
	}
	return url.Parse(r.URL)
}

// call has the effect of a tool.
func (w *theWorld) call(u *url.URL, send machine.Send, took time.Duration) saga.Answer {
	t := send.Request.Tool
	key := t.Meta[saga.KeyMeta]
	switch strings.TrimPrefix(u.Path, toolPath) {
	case "look":
		return result(reply(200, `{}`))
	case "undo":
		var of struct{ Key string }
		if err := json.Unmarshal(t.Arguments, &of); err != nil {
			panic(err)
		}
		a, undone := w.undo(key, u.Path, of.Key, "")
		if undone != "" {
			w.entry(world.Entry{Kind: world.Undo, Service: u.Path, Key: key, EffectID: "u" + undone, Undoes: undone})
		}
		return result(a)
	}
	a, made := w.make(key, u.Path, took)
	if made != "" {
		w.entry(world.Entry{Kind: world.Effect, Service: u.Path, Key: w.made[made], EffectID: made})
	}
	return result(a)
}

// result returns an answer of the remote service as the MCP server passes it on.
func result(a saga.Answer) saga.Answer {
	switch {
	case a.Status < 300:
		return reply(200, `{"content":[],"structured":`+string(a.Body)+`}`)
	case a.Status == 409: // an earlier call is in progress
		return reply(200, `{"content":[],"is_error":true}`)
	}
	return saga.Answer{Sent: true, Code: mcp.CodeRefused}
}
