// Package metrics counts what a node's sagas do, for Prometheus.
//
// [Metrics] is an Observer and a Meter of the engine. It counts facts of the journals as they
// become durable, by definition, kind and class. It never counts by saga or step, because their
// number has no bound. The counts are those of this process, since its start. A node that takes
// over a saga counts from the records on that the earlier node has not counted.
//
// To add a metric, declare it in [New] and count it where observe.go reads the record that causes
// it. Values of labels that users choose are bounded (names.go). The metrics of requests to the API
// are in package api.
package metrics
