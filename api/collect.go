package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"recourse/journal"
	"recourse/saga"
)

var (
	descSagas   = prometheus.NewDesc("recourse_sagas", "Sagas by status.", []string{"status"}, nil)
	descInbox   = prometheus.NewDesc("recourse_inbox_entries", "What waits for a person, by kind.", []string{"kind"}, nil)
	descWaiting = prometheus.NewDesc("recourse_inbox_oldest_seconds", "How long the oldest inbox entry of a kind has waited; 0 for none.", []string{"kind"}, nil)
	descOverdue = prometheus.NewDesc("recourse_overdue_seconds", "How long the longest due saga has waited for a node; 0 for none.", nil, nil)
	descOldest  = prometheus.NewDesc("recourse_oldest_seconds", "How long the oldest live saga of a status has stood in it; 0 for none.", []string{"status"}, nil)
	descHalted  = prometheus.NewDesc("recourse_quarantined_sagas", "Sagas that made no progress and are not tried any more until an order.", nil, nil)
	descStalled = prometheus.NewDesc("recourse_stalled_sagas", "Sagas that do not move and wait neither for a person nor for a time to come.", nil, nil)
	descStalls  = prometheus.NewDesc("recourse_stalled_steps", "Steps that do not move, by what they lack.", []string{"kind"}, nil)
	descTasks   = prometheus.NewDesc("recourse_tasks", "Tasks by type: waiting for a worker, or claimed by one.", []string{"type", "state"}, nil)
	descTask    = prometheus.NewDesc("recourse_task_oldest_seconds", "How long the task of a type that waits longest has waited for a worker; 0 for none.", []string{"type"}, nil)
	descEvents  = prometheus.NewDesc("recourse_outbox_events", "Events that wait to be delivered, by sink.", []string{"sink"}, nil)
	descBehind  = prometheus.NewDesc("recourse_outbox_oldest_seconds", "How long the oldest event of a sink has waited.", []string{"sink"}, nil)
	descNodes   = prometheus.NewDesc("recourse_nodes", "Nodes whose leases hold.", nil, nil)
	descUp      = prometheus.NewDesc("recourse_store_up", "1 if the store answered this scrape and takes writes.", nil, nil)
)

// storeCollector counts sagas when it is asked.
type storeCollector struct {
	store journal.Store
	now   func() time.Time
}

// Describe implements prometheus.Collector.
func (k *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSagas, descInbox, descWaiting, descOverdue, descOldest, descHalted, descStalled, descStalls, descTasks, descTask, descEvents, descBehind, descNodes, descUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A store that does not answer shows as
// recourse_store_up 0: the rest of the scrape must not fail with it.
func (k *storeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pinged := make(chan error, 1) // beside the counts, so that slow ones do not use up its time
	go func() { pinged <- k.store.Ping(ctx) }()
	st, err := k.store.Stats(ctx)
	if err != nil {
		ch <- gauge(descUp, 0)
		return
	}
	up := 1.0
	if <-pinged != nil { // it can be read, but a full disk or a standby takes no writes
		up = 0
	}
	ch <- gauge(descUp, up)
	for _, status := range statuses {
		ch <- gauge(descSagas, float64(st.ByStatus[status]), status)
	}
	for _, kind := range inboxKinds {
		ch <- gauge(descInbox, float64(st.Inbox[kind]), kind)
		ch <- gauge(descWaiting, k.since(st.OldestInboxByKind[kind]), kind)
	}
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
	nodes, err := k.store.Nodes(ctx)
	if err != nil {
		return
	}
	ch <- gauge(descNodes, float64(k.alive(nodes)))
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

// alive counts the nodes whose leases hold; one without an end holds.
func (k *storeCollector) alive(nodes []journal.NodeInfo) (n int) {
	for _, node := range nodes {
		if node.ExpiresAt.IsZero() || node.ExpiresAt.After(k.now()) {
			n++
		}
	}
	return n
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
	{engineDesc("commits_failed_total", "Commits that did not go through and were repeated."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.CommitsFailed) }},
	{engineDesc("lease_renewals_failed_total", "Renewals of the node's lease that failed."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.RenewsFailed) }},
	{engineDesc("requests_sent_total", "Requests of steps that were sent."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.RequestsSent) }},
	{engineDesc("sagas_in_memory", "Sagas that this node runs."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Running) }},
	{engineDesc("stalled_total", "Sagas that nothing would have moved again: read again from their journals. Each is a bug."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Stalled) }},
	{engineDesc("commit_age_seconds", "Age of the commit under way, from its first try; 0 for none."), prometheus.GaugeValue, func(s EngineStats) float64 { return s.CommitAge.Seconds() }},
	{engineDesc("stalest_seconds", "How long the saga in memory that has not moved for longest has not; 0 for none."), prometheus.GaugeValue, func(s EngineStats) float64 { return s.Stalest.Seconds() }},
	{prometheus.NewDesc("recourse_expired_sagas_total", "Sagas that this node has deleted because their retention was over.", nil, nil), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Expired) }},
	{engineDesc("sagas_in_memory_limit", "How many sagas this node runs at most."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxRunning) }},
	{engineDesc("requests_limit", "How many requests of steps may be under way at most."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxCalls) }},
	{engineDesc("starts_waiting", "Starts that wait for their commit."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Starting) }},
	{engineDesc("starts_limit", "How many starts may wait for their commit."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxStarts) }},
	{engineDesc("starts_refused_total", "Starts refused because the node had as much to do as it takes: clients got 429."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.StartsRefused) }},
	{engineDesc("sagas_given_up_total", "Sagas that this node could not go on with and gave up; they rest and are tried again."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.GivenUp) }},
	{prometheus.NewDesc("recourse_acknowledged_lost_total", "Sagas of which a fail-over of the database has lost records that this node had acknowledged.", nil, nil), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Lost) }},
	{engineDesc("strangers_released_total", "Sagas that the database said were this node's and that it did not hold; they were released, and go on."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Strangers) }},
	{engineDesc("answer_bytes", "Bytes of services' answers that are being read, or whose outcome is not durable yet."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.AnswerBytes) }},
	{engineDesc("answer_bytes_limit", "How many bytes of answers there may be at once, but for one answer more."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxAnswers) }},
	{engineDesc("answers_waiting", "Answers that wait for memory to be read."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.AnswersWait) }},
	{engineDesc("saga_bytes", "Bytes of the records of the sagas in memory."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.SagaBytes) }},
	{engineDesc("saga_bytes_limit", "Beyond how many bytes larger sagas leave memory between two steps."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxSagas) }},
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
