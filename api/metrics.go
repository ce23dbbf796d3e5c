package api

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const metricsPath = "/metrics"

// metrics serves /metrics: requests by route, never by id; the store's counts of sagas; the figures
// of the engine.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	limited  *prometheus.CounterVec

	asks        *prometheus.CounterVec
	askOverhead prometheus.Histogram
}

// The results of agents' requests to models.
const (
	askFresh    = "fresh"    // the provider has answered
	askReplayed = "replayed" // the answer is one that the journal has, or gets
	askFailed   = "failed"   // there is no answer
	askLeft     = "left"     // the client has left before the answer's end, or the server stops
	askRefused  = "refused"  // nothing was sent
)

func newMetrics(cfg Config) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recourse_http_requests_total", Help: "HTTP requests, by status of the response."}, []string{"method", "route", "status"}),
		limited:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recourse_http_rate_limited_total", Help: "Requests refused because their key's name was over its rate limit, by role."}, []string{"role"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "recourse_http_request_seconds", Help: "Time from an HTTP request to its response.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"method", "route"}),
	}
	m.asks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recourse_session_asks_total", Help: "Requests of agents to models, by how they ended."}, []string{"result"})
	m.askOverhead = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "recourse_session_ask_overhead_seconds", Help: "Time that the journal adds to a request of an agent to a model: from its arrival until its answer is committed, without the time of the provider.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}})
	for _, result := range []string{askFresh, askReplayed, askFailed, askLeft, askRefused} {
		m.asks.WithLabelValues(result)
	}
	for _, role := range Roles { // so that the series exists before the first refusal
		m.limited.WithLabelValues(role)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.seconds, m.limited, m.asks, m.askOverhead, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&storeCollector{store: cfg.Store, now: cfg.Engine.Now})
	if cfg.EngineStats != nil {
		registry.MustRegister(&figures[EngineStats]{engineDescs, cfg.EngineStats})
	}
	if cfg.ArchiveStats != nil {
		registry.MustRegister(&figures[ArchiveStats]{archiveDescs, cfg.ArchiveStats})
	}
	if cfg.OutboxStats != nil {
		registry.MustRegister(&outboxCollector{stats: cfg.OutboxStats})
	}
	registry.MustRegister(cfg.Collectors...)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
	return m
}

// scrape serves GET /metrics.
func (s *server) scrape(c echo.Context) error {
	s.metrics.handler.ServeHTTP(c.Response(), c.Request())
	return nil
}

// observe measures every request, and responds with a problem if its handler fails or panics.
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
			method = "other" // a client can send any text as a method, and each would become a label
		}
		took := time.Since(began)
		s.metrics.requests.WithLabelValues(method, route, strconv.Itoa(c.Response().Status)).Inc()
		s.metrics.seconds.WithLabelValues(method, route).Observe(took.Seconds())
		if s.log.Enabled(c.Request().Context(), slog.LevelDebug) { // avoids allocating the arguments
			s.log.Debug("request", "method", method, "path", c.Request().URL.Path, "status", c.Response().Status, "took", took)
		}
		if cut {
			// This closes the connection, so that the client notices that the response is
			// incomplete.
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// respond writes err as a problem. cut is true if the response had already begun.
func (s *server) respond(c echo.Context, err error) (cut bool) {
	if err == nil {
		return false
	}
	if !c.Response().Committed {
		s.respondError(err, c)
		return false
	}
	if c.Request().Context().Err() == nil {
		s.log.Error("a response ended early", "route", c.Path(), "error", err)
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
