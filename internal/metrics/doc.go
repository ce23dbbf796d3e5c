// Package metrics counts what a node's sagas do, for Prometheus.
//
// [Metrics] is an engine's Observer and Meter. It counts facts of the journals as they become
// durable, by definition, kind and class: never by saga or step, which have no bound. The counts
// are this process's, since it began; a node that goes on with another's saga counts from where
// that one stood.
package metrics
