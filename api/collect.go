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
	descInbox   = prometheus.NewDesc("recourse_inbox_entries", "Inbox entries, by kind.", []string{"kind"}, nil)
	descWaiting = prometheus.NewDesc("recourse_inbox_oldest_seconds", "Age of the oldest inbox entry of a kind; 0 for none.", []string{"kind"}, nil)
	descOverdue = prometheus.NewDesc("recourse_overdue_seconds", "Time that the longest overdue saga has waited for a node; 0 for none.", nil, nil)
	descOldest  = prometheus.NewDesc("recourse_oldest_saga_seconds", "Time that a live saga has been in its status, the longest for each status; 0 for none.", []string{"status"}, nil)
	descHalted  = prometheus.NewDesc("recourse_quarantined_sagas", "Sagas that made no progress and are not retried until somebody resumes them.", nil, nil)
	descStalled = prometheus.NewDesc("recourse_stalled_sagas", "Sagas that make no progress, although they are not waiting for a person or a timer.", nil, nil)
	descStalls  = prometheus.NewDesc("recourse_stalled_steps", "Steps that make no progress, by what they lack.", []string{"kind"}, nil)
	descTasks   = prometheus.NewDesc("recourse_tasks", "Tasks by type and state: waiting for a worker, or claimed by one.", []string{"type", "state"}, nil)
	descTask    = prometheus.NewDesc("recourse_task_oldest_seconds", "Age of the oldest task of a type that no worker has claimed; 0 for none.", []string{"type"}, nil)
	descEvents  = prometheus.NewDesc("recourse_outbox_events", "Undelivered events, by sink.", []string{"sink"}, nil)
	descBehind  = prometheus.NewDesc("recourse_outbox_oldest_seconds", "Age of the oldest undelivered event of a sink.", []string{"sink"}, nil)
	descNodes   = prometheus.NewDesc("recourse_nodes", "Nodes with a valid lease.", nil, nil)
	descUp      = prometheus.NewDesc("recourse_store_up", "1 if the store responded to this scrape and accepts writes.", nil, nil)
)

// storeCollector reads the store's counts at each scrape.
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

// Collect implements prometheus.Collector. If the store does not respond, recourse_store_up is 0
// and the rest of the scrape succeeds.
func (k *storeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pinged := make(chan error, 1) // concurrent, so that slow counts do not use up its time
	go func() { pinged <- k.store.Ping(ctx) }()
	st, err := k.store.Stats(ctx)
	if err != nil {
		ch <- gauge(descUp, 0)
		return
	}
	up := 1.0
	if <-pinged != nil { // a full disk or a standby can be read, but accepts no writes
		up = 0
	}
	ch <- gauge(descUp, up)
	for _, status := range statuses {
		ch <- gauge(descSagas, float64(st.ByStatus[status]), status)
	}
	for _, kind := range saga.InboxKinds {
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
	for _, kind := range journal.SagaStalls {
		stalled += st.Stalled[kind]
	}
	ch <- gauge(descStalled, float64(stalled))
	for _, kind := range journal.StepStalls {
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

// alive counts the nodes with a valid lease. A lease without an end is always valid.
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

var engineDescs = []figure[EngineStats]{
	{engineDesc("commits_total", "Successful commits."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Commits) }},
	{engineDesc("appends_total", "Appends in successful commits."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Appends) }},
	{engineDesc("commits_failed_total", "Commits that failed and were repeated."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.CommitsFailed) }},
	{engineDesc("lease_renewals_failed_total", "Renewals of the node's lease that failed."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.RenewsFailed) }},
	{engineDesc("requests_sent_total", "Requests of steps sent."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.RequestsSent) }},
	{engineDesc("sagas_in_memory", "Sagas in this node's memory."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Running) }},
	{engineDesc("stalled_total", "Sagas that nothing would have woken, reloaded from their journals. Each of them is a bug in recourse."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Stalled) }},
	{engineDesc("commit_age_seconds", "Age of the commit in flight, from its first attempt; 0 for none."), prometheus.GaugeValue, func(s EngineStats) float64 { return s.CommitAge.Seconds() }},
	{engineDesc("longest_idle_seconds", "Time since the last progress of the least recently active saga in memory; 0 for none."), prometheus.GaugeValue, func(s EngineStats) float64 { return s.Stalest.Seconds() }},
	{prometheus.NewDesc("recourse_expired_sagas_total", "Sagas that this node deleted at the end of their retention.", nil, nil), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Expired) }},
	{engineDesc("sagas_in_memory_limit", "Maximum of sagas in this node's memory."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxRunning) }},
	{engineDesc("requests_limit", "Maximum of requests of steps in flight."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxCalls) }},
	{engineDesc("starts_waiting", "Starts waiting for their commit."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Starting) }},
	{engineDesc("starts_limit", "Maximum of starts waiting for their commit."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxStarts) }},
	{engineDesc("starts_refused_total", "Starts refused with 429 because the node was at its limits."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.StartsRefused) }},
	{engineDesc("sagas_given_up_total", "Sagas that this node could not run. They are retried after a pause."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.GivenUp) }},
	{prometheus.NewDesc("recourse_acknowledged_lost_total", "Sagas that lost records in a failover of the database, although this node had acknowledged them.", nil, nil), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Lost) }},
	{engineDesc("unheld_sagas_released_total", "Sagas that this node owned in the database without having them in memory. They were released, and continue."), prometheus.CounterValue, func(s EngineStats) float64 { return float64(s.Unheld) }},
	{engineDesc("response_bytes", "Bytes of responses that are being read, or whose outcome is not durable yet."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.AnswerBytes) }},
	{engineDesc("response_bytes_limit", "Maximum of bytes of responses; one response may exceed it."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxAnswers) }},
	{engineDesc("responses_waiting", "Responses waiting for memory."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.AnswersWait) }},
	{engineDesc("saga_bytes", "Bytes of the records of the sagas in memory."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.SagaBytes) }},
	{engineDesc("saga_bytes_limit", "Bytes of records from which larger sagas leave memory between two steps."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.MaxSagas) }},
	{engineDesc("requests_in_flight", "Requests of steps in flight."), prometheus.GaugeValue, func(s EngineStats) float64 { return float64(s.Calls) }},
}

func engineDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("recourse_engine_"+name, help, nil, nil)
}

// figure is a metric without labels that is one of several statistics.
type figure[S any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(S) float64
}

// figures is a collector of figures.
type figures[S any] struct {
	list  []figure[S]
	stats func() S
}

// Describe implements prometheus.Collector.
func (k *figures[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range k.list {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (k *figures[S]) Collect(ch chan<- prometheus.Metric) {
	s := k.stats()
	for _, d := range k.list {
		ch <- prometheus.MustNewConstMetric(d.desc, d.kind, d.of(s))
	}
}

// OutboxStats are the counts of deliveries to one sink since the process started.
type OutboxStats struct {
	Sink      string
	Delivered int64
	Failed    int64 // failed attempts
	Dropped   int64 // events of a sink that is no longer configured
}

var descDeliveries = prometheus.NewDesc("recourse_outbox_deliveries_total", "Attempts to deliver events, by sink and result.", []string{"sink", "result"}, nil)

// outboxCollector exports the counts of an outbox.
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

// ArchiveStats are the counts of an archiver since the process started, and what its last search
// for expired sagas has found.
type ArchiveStats struct {
	Sagas, Objects, Bytes int64
	Failures              int64
	Refused               int
	Overdue               time.Duration
}

var archiveDescs = []figure[ArchiveStats]{
	{archiveDesc("sagas_total", "Sagas that this node archived, and then deleted from the database."), prometheus.CounterValue, func(s ArchiveStats) float64 { return float64(s.Sagas) }},
	{archiveDesc("objects_total", "Objects with journals that this node stored in the archive and read back."), prometheus.CounterValue, func(s ArchiveStats) float64 { return float64(s.Objects) }},
	{archiveDesc("bytes_total", "Bytes of these objects."), prometheus.CounterValue, func(s ArchiveStats) float64 { return float64(s.Bytes) }},
	{archiveDesc("failures_total", "Runs of this node's archiver that failed. The sagas stay in the database."), prometheus.CounterValue, func(s ArchiveStats) float64 { return float64(s.Failures) }},
	{archiveDesc("refused_sagas", "Expired sagas that this node cannot archive because their journals are not sound."), prometheus.GaugeValue, func(s ArchiveStats) float64 { return float64(s.Refused) }},
	{archiveDesc("overdue_seconds", "Time that the oldest expired saga has been in the database beyond --archive-wait; 0 for none."), prometheus.GaugeValue, func(s ArchiveStats) float64 { return s.Overdue.Seconds() }},
}

func archiveDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("recourse_archive_"+name, help, nil, nil)
}
