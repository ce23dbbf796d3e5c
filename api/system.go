package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/saga"
)

// systemView is the response of GET /v1/system: tasks and events that are waiting, and the node
// that serves the request.
type systemView struct {
	Version string      `json:"version,omitempty"`
	Now     saga.Time   `json:"now"` // by the store's clock, as all other times
	Engine  *engineView `json:"engine,omitempty"`
	Tasks   []taskCount `json:"tasks"`
	Outbox  []sinkCount `json:"outbox"`
}

// engineView shows the node that serves the request. Its counts start with its process.
type engineView struct {
	Node            string `json:"node,omitempty"` // absent while it has no lease
	Lanes           int    `json:"lanes"`
	Running         int    `json:"sagas_in_memory"`
	Calls           int    `json:"requests_in_flight"`
	RequestsSent    int64  `json:"requests_sent"`
	Commits         int64  `json:"commits"`
	Appends         int64  `json:"appends"`
	CommitAverage   int64  `json:"commit_average_us"` // microseconds
	CommitAge       int64  `json:"commit_age_ms"`     // of the commit in flight; 0: none
	CommitsFailed   int64  `json:"commits_failed"`
	RenewalsFailed  int64  `json:"lease_renewals_failed"`
	Stalest         int64  `json:"longest_idle_ms"`
	StalledInMemory int64  `json:"stalled"`
	Expired         int64  `json:"expired"`
}

// taskCount counts the tasks of a type.
type taskCount struct {
	Type    string     `json:"type"`
	Waiting int        `json:"waiting"`
	Claimed int        `json:"claimed"`
	Oldest  *saga.Time `json:"oldest_at,omitempty"` // of the waiting ones
}

// sinkCount counts the events that wait for a sink, and this node's attempts to deliver to it.
type sinkCount struct {
	Sink      string     `json:"sink"`
	Waiting   int        `json:"waiting"`
	Oldest    *saga.Time `json:"oldest_at,omitempty"`
	Why       string     `json:"last_failure,omitempty"` // of the waiting ones
	Delivered int64      `json:"delivered"`
	Failed    int64      `json:"failed"`
	Dropped   int64      `json:"dropped"`
}

// system serves GET /v1/system.
func (s *server) system(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	v := systemView{Version: s.cfg.Version, Now: saga.Time{Time: s.cfg.Engine.Now()}, Tasks: []taskCount{}, Outbox: []sinkCount{}}
	if s.cfg.EngineStats != nil {
		v.Engine = engineOf(s.cfg.EngineStats())
	}
	tasks, err := s.cfg.Store.TaskStats(ctx)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		v.Tasks = append(v.Tasks, taskCount{t.Type, t.Waiting, t.Claimed, instant(t.Oldest)})
	}
	waiting, err := s.cfg.Store.OutboxStats(ctx)
	if err != nil {
		return err
	}
	sinks := map[string]sinkCount{}
	for _, w := range waiting {
		sinks[w.Sink] = sinkCount{Sink: w.Sink, Waiting: w.Events, Oldest: instant(w.Oldest), Why: w.Last}
	}
	if s.cfg.OutboxStats != nil {
		for _, o := range s.cfg.OutboxStats() {
			sink := sinks[o.Sink]
			sink.Sink, sink.Delivered, sink.Failed, sink.Dropped = o.Sink, o.Delivered, o.Failed, o.Dropped
			sinks[o.Sink] = sink
		}
	}
	for _, name := range sortedKeys(sinks) {
		v.Outbox = append(v.Outbox, sinks[name])
	}
	return reply(c, http.StatusOK, v)
}

func engineOf(st EngineStats) *engineView {
	return &engineView{Node: st.Node, Lanes: st.Lanes, Running: st.Running, Calls: st.Calls, RequestsSent: st.RequestsSent, Commits: st.Commits, Appends: st.Appends,
		CommitAverage: (st.CommitTime / time.Duration(max(st.Commits, 1))).Microseconds(), CommitAge: st.CommitAge.Milliseconds(), CommitsFailed: st.CommitsFailed,
		RenewalsFailed: st.RenewsFailed, Stalest: st.Stalest.Milliseconds(), StalledInMemory: st.Stalled, Expired: st.Expired}
}
