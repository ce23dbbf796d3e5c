package agent

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/saga/machine"
)

// Times between two looks at the session. Where nobody watches, they grow while nothing happens.
const (
	lookLive = 400 * time.Millisecond
	lookMost = 10 * time.Second
)

// viewer shows a session and its calls.
type viewer interface {
	show(v *session, calls []machine.CallView)
	end()
}

// watcher reads the session of a runner while its process runs, and shows its calls.
type watcher struct {
	r      *runner
	view   viewer
	most   time.Duration
	secret atomic.Pointer[string] // of the present life; nil: none yet
	ready  chan struct{}          // closed after the first look
	tag    string                 // ETag of the session that was shown
	said   []string               // models of which free has said something
	stop   func()                 // shows the last state, and waits for the end
}

// watch shows the session's calls until stop: at the bottom of a terminal, or else line by line.
// found: the session may have calls already. The first look comes with the first life, before its
// process runs, so that it shows only what was there before.
func (r *runner) watch(plain, found bool) *watcher {
	w := &watcher{r: r, view: &callLines{note: r.note, found: found}, most: lookMost, ready: make(chan struct{})}
	if !plain && r.app.Live && cli.IsTerminal(r.app.Stderr) && r.app.Rows() >= leastRows {
		w.view, w.most = &panel{app: r.app}, lookLive
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.app.Ctx))
	done := make(chan struct{})
	w.stop = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		defer func() { w.view.end() }()
		select {
		case <-w.ready:
		case <-ctx.Done():
		}
		pause, stopping := lookLive, r.app.Ctx.Done()
		for {
			if pause *= 2; w.look(ctx, requestTime) {
				pause = lookLive
			}
			select {
			case <-time.After(min(pause, w.most)):
			case <-stopping: // a second signal ends the program at once, and must not leave a panel
				stopping = nil
				if p, ok := w.view.(*panel); ok {
					w.view = p.lines(r.note)
				}
			case <-ctx.Done():
				w.look(context.WithoutCancel(ctx), detachTime)
				return
			}
		}
	}()
	return w
}

// begin makes the watcher read in the name of a life, whose process does not run yet.
func (w *watcher) begin(secret string) {
	if w.secret.Swap(&secret) == nil {
		w.look(w.r.app.Ctx, detachTime)
		close(w.ready)
	}
}

// look shows the session if it has changed. Errors are ignored: the view is an extra, and the
// runner reports a server that is away.
func (w *watcher) look(ctx context.Context, within time.Duration) (changed bool) {
	secret := w.secret.Load()
	if secret == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cl, err := remote.ServerFlags{Server: w.r.flags.Server, APIKey: w.r.token(*secret)}.Client(ctx)
	if err != nil {
		return false
	}
	answer, err := cl.Do(remote.Call{Method: http.MethodGet, Path: remote.SessionPath(w.r.session.ID), Header: map[string]string{"If-None-Match": w.tag}})
	if err != nil || answer.Status == http.StatusNotModified {
		return false
	}
	v := new(session)
	if answer.Into(v) != nil {
		return false
	}
	calls, err := remote.ReadAll[machine.CallView](cl, remote.SessionPath(v.ID, "calls"), url.Values{}, 0)
	if err != nil {
		return false
	}
	w.tag = answer.Header.Get("ETag")
	w.view.show(v, calls)
	w.free(v)
	return true
}

// free says once of each model that its requests count as free although the session has a budget in
// money, which then does not limit them.
func (w *watcher) free(v *session) {
	if v.Cost.Budget == "" {
		return
	}
	for _, model := range slices.Sorted(maps.Keys(v.Cost.Models)) {
		if strings.Trim(v.Cost.Models[model].Spent, "0.") != "" || slices.Contains(w.said, model) {
			continue
		}
		w.said = append(w.said, model)
		w.r.note("requests to %s count as free, so the budget of %s does not limit them: if they are not, add the price of the model to the server's `llm.prices`, or limit `--tokens`",
			model, strings.TrimSpace(v.Cost.Budget+" "+v.Cost.Currency))
	}
}
