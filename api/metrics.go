package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"recourse/journal"
	"recourse/saga"
)

// metrics are what /metrics shows: requests by route, never by id; sagas, by what the store counts; the engine.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(cfg Config) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recourse_http_requests_total", Help: "Requests answered."}, []string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "recourse_http_request_seconds", Help: "Time until a request was answered.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"method", "route"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&storeCollector{store: cfg.Store, now: cfg.Engine.Now})
	if cfg.EngineStats != nil {
		registry.MustRegister(&engineCollector{stats: cfg.EngineStats})
	}
	if cfg.OutboxStats != nil {
		registry.MustRegister(&outboxCollector{stats: cfg.OutboxStats})
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m
}

// scrape serves GET /metrics.
func (s *server) scrape(c echo.Context) error {
	s.metrics.handler.ServeHTTP(c.Response(), c.Request())
	return nil
}

// observe counts every request, and answers those whose handlers fail or panic.
func (s *server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		cut := s.respond(c, s.protect(c, next))
		route := c.Path()
		if route == "" {
			route = "none"
		}
		method := c.Request().Method
		if !knownMethod(method) {
			method = "other" // a method is a label that anyone can make up
		}
		took := time.Since(began)
		s.metrics.requests.WithLabelValues(method, route, strconv.Itoa(c.Response().Status)).Inc()
		s.metrics.seconds.WithLabelValues(method, route).Observe(took.Seconds())
		if s.log.Enabled(c.Request().Context(), slog.LevelDebug) { // else its arguments are made for nothing
			s.log.Debug("request", "method", method, "path", c.Request().URL.Path, "status", c.Response().Status, "took", took)
		}
		if cut {
			panic(http.ErrAbortHandler) // breaks the connection off, so that half an answer does not look whole
		}
		return nil
	}
}

// respond answers with err, if there is one; cut when an answer had begun before it.
func (s *server) respond(c echo.Context, err error) (cut bool) {
	if err == nil {
		return false
	}
	if !c.Response().Committed {
		s.respondError(err, c)
		return false
	}
	if c.Request().Context().Err() == nil {
		s.log.Error("an answer was cut short", "route", c.Path(), "error", err)
	}
	return true
}

func knownMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return true
	}
	return false
}

// protect turns a panic into an error, except the one that net/http asks for.
func (s *server) protect(c echo.Context, next echo.HandlerFunc) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if e, ok := v.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(v)
			}
			err = panicked(v)
		}
	}()
	return next(c)
}

var (
	descSagas   = prometheus.NewDesc("recourse_sagas", "Sagas by status.", []string{"status"}, nil)
	descInbox   = prometheus.NewDesc("recourse_inbox_entries", "What waits for a person, by kind.", []string{"kind"}, nil)
	descWaiting = prometheus.NewDesc("recourse_inbox_oldest_seconds", "How long the oldest inbox entry has waited; 0 for none.", nil, nil)
	descOverdue = prometheus.NewDesc("recourse_overdue_seconds", "How long the longest due saga has waited for a node; 0 for none.", nil, nil)
	descOldest  = prometheus.NewDesc("recourse_oldest_seconds", "How long the oldest live saga of a status has stood in it; 0 for none.", []string{"status"}, nil)
	descHalted  = prometheus.NewDesc("recourse_quarantined_sagas", "Sagas that made no progress and are not tried any more until an order.", nil, nil)
	descStalled = prometheus.NewDesc("recourse_stalled_sagas", "Sagas that do not move and wait neither for a person nor for a time to come.", nil, nil)
	descStalls  = prometheus.NewDesc("recourse_stalled_steps", "Steps that do not move, by what they lack.", []string{"kind"}, nil)
	descTasks   = prometheus.NewDesc("recourse_tasks", "Tasks by type: waiting for a worker, or claimed by one.", []string{"type", "state"}, nil)
	descTask    = prometheus.NewDesc("recourse_task_oldest_seconds", "How long the task of a type that waits longest has waited for a worker; 0 for none.", []string{"type"}, nil)
	descEvents  = prometheus.NewDesc("recourse_outbox_events", "Events that wait to be delivered, by sink.", []string{"sink"}, nil)
	descBehind  = prometheus.NewDesc("recourse_outbox_oldest_seconds", "How long the oldest event of a sink has waited.", []string{"sink"}, nil)
	descUp      = prometheus.NewDesc("recourse_store_up", "1 if the store answered this scrape.", nil, nil)
)

// storeCollector counts sagas when it is asked.
type storeCollector struct {
	store journal.Store
	now   func() time.Time
}

// Describe implements prometheus.Collector.
func (k *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSagas, descInbox, descWaiting, descOverdue, descOldest, descHalted, descStalled, descStalls, descTasks, descTask, descEvents, descBehind, descUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A store that does not answer shows as
// recourse_store_up 0: the rest of the scrape must not fail with it.
func (k *storeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	st, err := k.store.Stats(ctx)
	if err != nil {
		ch <- gauge(descUp, 0)
		return
	}
	ch <- gauge(descUp, 1)
	for _, status := range statuses {
		ch <- gauge(descSagas, float64(st.ByStatus[status]), status)
	}
	for _, kind := range inboxKinds {
		ch <- gauge(descInbox, float64(st.Inbox[kind]), kind)
	}
	ch <- gauge(descWaiting, k.since(st.OldestInbox))
	ch <- gauge(descOverdue, k.since(st.OldestDue))
	for _, status := range statuses {
		if !saga.Status(status).Terminal() {
			ch <- gauge(descOldest, k.since(st.Oldest[status]), status)
		}
	}
	ch <- gauge(descHalted, float64(st.Quarantined))
	stalled := int64(0)
	for _, kind := range stalledSagas {
		stalled += st.Stalled[kind]
	}
	ch <- gauge(descStalled, float64(stalled))
	for _, kind := range stalledSteps {
		ch <- gauge(descStalls, float64(st.Stalled[kind]), kind)
	}
	tasks, err := k.store.TaskStats(ctx)
	if err != nil {
		return
	}
	for _, t := range tasks {
		ch <- gauge(descTasks, float64(t.Waiting), t.Type, "waiting")
		ch <- gauge(descTasks, float64(t.Claimed), t.Type, "claimed")
		ch <- gauge(descTask, k.since(t.Oldest), t.Type)
	}
	waiting, err := k.store.OutboxStats(ctx)
	if err != nil {
		return
	}
	for _, w := range waiting {
		ch <- gauge(descEvents, float64(w.Events), w.Sink)
		ch <- gauge(descBehind, k.since(w.Oldest), w.Sink)
	}
}

func (k *storeCollector) since(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(k.now().Sub(t).Seconds(), 0)
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

var engineDescs = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(EngineStats) float64
}{
	{engineDesc("commits_total", "Commits that went through."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Commits) }},
	{engineDesc("appends_total", "Appends in those commits."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Appends) }},
	{engineDesc("commit_seconds_total", "Time that commits took, in sum."), prometheus.CounterValue, func(s EngineStats) float64 { return s.CommitTime.Seconds() }},
	{engineDesc("commits_failed_total", "Commits that did not go through and were repeated."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.CommitsFailed) }},
	{engineDesc("lease_renewals_failed_total", "Renewals of the node's lease that failed."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.RenewsFailed) }},
	{engineDesc("requests_sent_total", "Requests of steps that were sent."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.RequestsSent) }},
	{engineDesc("sagas_in_memory", "Sagas that this node runs."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Running) }},
	{engineDesc("stalled_total", "Sagas that nothing would have moved again: read again from their journals. Each is a bug."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Stalled) }},
	{engineDesc("commit_age_seconds", "Age of the commit under way, from its first try; 0 for none."), prometheus.GaugeValue, func(s EngineStats) float64 { return s.CommitAge.Seconds() }},
	{engineDesc("stalest_seconds", "How long the saga in memory that has not moved for longest has not; 0 for none."), prometheus.GaugeValue, func(s EngineStats) float64 { return s.Stalest.Seconds() }},
	{prometheus.NewDesc("recourse_expired_sagas_total", "Sagas that this node has deleted because their retention was over.", nil, nil), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Expired) }},
	{engineDesc("requests_under_way", "Requests of steps under way."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Calls) }},
}

func engineDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("recourse_engine_"+name, help, nil, nil)
}

// engineCollector shows an engine's counts.
type engineCollector struct{ stats func() EngineStats }

// Describe implements prometheus.Collector.
func (k *engineCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range engineDescs {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (k *engineCollector) Collect(ch chan<- prometheus.Metric) {
	s := k.stats()
	for _, d := range engineDescs {
		ch <- prometheus.MustNewConstMetric(d.desc, d.kind, d.of(s))
	}
}

// OutboxStats are what /metrics shows of deliveries to one sink, since the process began.
type OutboxStats struct {
	Sink      string
	Delivered int64
	Failed    int64 // attempts
	Dropped   int64 // the sink had gone
}

var descDeliveries = prometheus.NewDesc("recourse_outbox_deliveries_total", "Attempts to deliver events, by sink and by what came of them.", []string{"sink", "result"}, nil)

// outboxCollector shows an outbox's counts.
type outboxCollector struct{ stats func() []OutboxStats }

// Describe implements prometheus.Collector.
func (k *outboxCollector) Describe(ch chan<- *prometheus.Desc) { ch <- descDeliveries }

// Collect implements prometheus.Collector.
func (k *outboxCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range k.stats() {
		for _, r := range []struct {
			name string
			n    int64
		}{{"delivered", s.Delivered}, {"failed", s.Failed}, {"dropped", s.Dropped}} {
			ch <- prometheus.MustNewConstMetric(descDeliveries, prometheus.CounterValue, float64(r.n), s.Sink, r.name)
		}
	}
}
