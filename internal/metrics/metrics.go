package metrics

import (
	"sync"

	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"

	"recourse/engine"
	"recourse/retry"
)

// Config configures Metrics.
type Config struct {
	// Median returns the typical cost of a definition's sagas; false: unknown. The engine's lanes
	// call it, so it must not block. nil: no saga counts as an outlier.
	Median func(definition string) (retry.Money, bool)
}

// Metrics counts the facts of journals. Make it with New. It is an engine.Observer, an engine.Meter
// and a prometheus.Collector.
type Metrics struct {
	cfg Config
	all []prometheus.Collector

	definitions, models, actions, currencies *names

	mu     sync.Mutex
	states map[uuid.UUID]*sagaState

	started, ended, attempts, retries, doubts, settled, compensations *prometheus.CounterVec
	refusals, spent, wasted, tokens, outliers, commands               *prometheus.CounterVec
	lives, calls                                                      *prometheus.CounterVec
	sagaSeconds, attemptSeconds, sagaCost, outboxAge                  *prometheus.HistogramVec
	commitSeconds, commitAppends, leaseLeft, claimedLate              prometheus.Histogram
}

var (
	_ engine.Observer      = (*Metrics)(nil)
	_ engine.Meter         = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// How many values a label may have whose values users choose. The rest are "other".
const (
	maxDefinitions = 500
	maxModels      = 100
	maxCurrencies  = 20 // a start names one if its definition does not
)

// Buckets, in seconds except for the last two.
var (
	forSagas    = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
	forAttempts = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	forCommits  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	forLeases   = []float64{.1, .25, .5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60}
	forDelays   = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
	forAppends  = prometheus.ExponentialBuckets(1, 2, 10)
	forCosts    = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 100, 1000}
)

// New returns Metrics with all counts at zero.
func New(cfg Config) *Metrics {
	m := &Metrics{cfg: cfg, definitions: newNames(maxDefinitions), models: newNames(maxModels), actions: newNames(maxActions), currencies: newNames(maxCurrencies), states: make(map[uuid.UUID]*sagaState)}
	m.started = m.counter("sagas_started_total", "Sagas started.", "definition")
	m.ended = m.counter("sagas_ended_total", "Sagas that have ended, by status and reason; the reason of a saga that succeeded is none.", "definition", "status", "reason")
	m.sagaSeconds = m.histogram("saga_seconds", "Time from a saga's start to its end.", forSagas, "definition", "status")
	m.attempts = m.counter("attempts_total", "Attempts that have ended. way is do for steps, undo for compensations, verify for status checks.", "definition", "kind", "way", "class")
	m.attemptSeconds = m.histogram("attempt_seconds", "Time from an attempt's intent to its outcome.", forAttempts, "kind", "class")
	m.retries = m.counter("retries_total", "Attempts after the first of their step or compensation.", "definition", "kind")
	m.doubts = m.counter("in_doubt_total", "Steps and compensations that came into doubt.", "definition")
	m.settled = m.counter("in_doubt_settled_total", "Doubts that ended, by what resolved them: a response, a status check or a person; none if the saga ended with the doubt.", "definition", "by")
	m.compensations = m.counter("compensations_total", "Compensations by result; one that was stuck may still be undone later.", "definition", "result")
	m.refusals = m.counter("budget_refusals_total", "Steps that failed because the budget did not cover them.", "definition")
	m.spent = m.counter("cost_total", "Amount that sagas have spent, in the currency.", "definition", "currency")
	m.wasted = m.counter("cost_wasted_total", "Amount that failed attempts have spent, in the currency.", "definition", "currency")
	m.tokens = m.counter("tokens_total", "Tokens that models have used.", "definition", "model", "direction")
	m.outliers = m.counter("cost_outliers_total", "Sagas that spent more than three times the typical cost of their definition.", "definition")
	m.sagaCost = m.histogram("saga_cost", "Cost of a saga at its end, in the currency; sagas without a cost have a bucket of their own.", forCosts, "definition", "currency")
	m.commands = m.counter("commands_total", "Commands of people, and signals, by whether the saga accepted them.", "command", "result")
	m.lives = m.counter("session_lives_total", "Processes of agents that have begun to act in a session.", "definition")
	m.calls = m.counter("session_calls_total", "Calls of agents that have ended, by how; one that is undone later is counted again.", "action", "result")
	m.outboxAge = m.histogram("outbox_delivery_seconds", "Age of events when their sink accepted them.", forDelays, "sink")

	m.commitSeconds = m.plain("engine_commit_seconds", "Duration of commits.", forCommits)
	m.commitAppends = m.plain("engine_commit_appends", "Appends in a commit.", forAppends)
	m.leaseLeft = m.plain("engine_lease_remaining_seconds", "Remaining time of the node's lease at its renewal; 0 if requests had to wait.", forLeases)
	m.claimedLate = m.plain("engine_claim_delay_seconds", "Time that sagas had been due when this node claimed them.", forDelays)
	return m
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recourse_" + name, Help: help}, labels)
	m.all = append(m.all, c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "recourse_" + name, Help: help, Buckets: buckets}, labels)
	m.all = append(m.all, h)
	return h
}

func (m *Metrics) plain(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "recourse_" + name, Help: help, Buckets: buckets})
	m.all = append(m.all, h)
	return h
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
}
