package ui

import (
	"strings"
	"testing"

	"recourse/saga"
)

func TestSystem(t *testing.T) {
	x := newSite(t)
	x.page("/system").want(200).has("Nothing is overdue, stalled or quarantined", "this one", "No tasks.", "All sagas have ended", `aria-current="page" data-go="y"`, "No stalled sagas")
	x.publish("saga: ask\nsteps:\n  - {id: fetch, task: page.fetch, when: input.work}\n  - {id: ok, approval: {title: Sure?}}\n")
	x.becomes(x.start("ask", `{"work": false}`), saga.Waiting)
	x.start("ask", `{"work": true}`)
	x.until("both wait", func() bool { return strings.Contains(x.page("/system").want(200).body, `<tr id="task-page.fetch">`) })
	x.page("/system").want(200).has(`href="/?status=waiting"`, `href="/inbox?kind=approval"`, `href="/?definition=ask"`, "Commit duration")
}

// Alerts come first, with links.
func TestSystemAlerts(t *testing.T) {
	x := canned(t, map[string]string{
		"/v1/stats": `{"sagas": {"stuck": 2}, "live": {"order": 2}, "inbox": {"stuck": 1}, "oldest_due_at": "2026-01-03T11:58:00Z", "oldest_at": {"stuck": "2026-01-03T10:00:00Z"}, "quarantined": 2, "counted_at": "2026-01-03T11:59:00Z",
			"nodes": [{"node": "n1", "lease_until": "2026-01-03T11:59:59Z", "sagas": 3}]}`,
		"/v1/system": `{"now": "2026-01-03T12:00:00Z", "version": "9.9", "engine": {"lanes": 4, "commits": 4, "appends": 10, "commit_average_us": 2345, "commit_age_ms": 7000, "stalled": 1},
			"tasks": [{"type": "page.fetch", "waiting": 3, "claimed": 0, "oldest_at": "2026-01-03T11:00:00Z"}, {"type": "fresh", "waiting": 1, "claimed": 0, "oldest_at": "2026-01-03T11:59:00Z"}],
			"outbox": [{"sink": "audit", "waiting": 1, "oldest_at": "2026-01-03T11:59:50Z", "last_failure": "HTTP <503>", "delivered": 7, "failed": 2, "dropped": 1}, {"sink": "crm", "waiting": 0, "delivered": 1}]}`,
		"/v1/stalled": `{"data": [{"saga": "01a200d4-e423-71dd-bb3a-842521c6c478", "definition": "order", "path": "pages[3].fetch", "since": "2026-01-03T11:00:00Z", "why": "no worker has claimed it"}]}`,
	})
	x.page("/system").want(200).has(
		"2 sagas made no progress repeatedly, and are not retried until somebody resumes them",
		"a due saga has waited 2 min for a node",
		`<a href="#stalled">1 saga or step has stalled</a>`,
		"this node has no lease",
		"a commit has been in flight for 7 s",
		"the lease of node n1 has expired",
		"a task of type page.fetch has waited 1 h: check that a worker runs",
		`<a href="#outbox">1 event waits for the sink audit: check whether it responds</a>`,
		"2.3 ms", "for 2.5 appends", "HTTP &lt;503&gt;", "(2 tries failed)", "(1 dropped)", "pages[3].fetch", "no worker has claimed it",
		"each of them is a bug; please report it", "updated from time to time",
	).lacks("type fresh", "sink crm:", "Nothing is overdue")
	x = canned(t, map[string]string{
		"/v1/stats":   `{"sagas": {}, "live": {}, "inbox": {}, "oldest_at": {}, "quarantined": 1, "nodes": []}`,
		"/v1/system":  `{"now": "2026-01-03T12:00:00Z", "tasks": [], "outbox": []}`,
		"/v1/stalled": `{"data": []}`,
	})
	x.page("/system").want(200).has("1 saga made no progress repeatedly, and is not retried until somebody resumes it", "No node has a lease", "No stalled sagas").lacks("Commit duration", "Lanes", "now and then")
}
