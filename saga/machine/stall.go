package machine

import (
	"time"

	"recourse/journal"
	"recourse/saga"
)

// Stall returns a stall of the machine's saga, or of a step of it.
func (m *Machine) Stall(kind, path string, since time.Time, why string) journal.Stall {
	path, _ = saga.SplitQuery(path)
	since = since.UTC().Truncate(time.Millisecond)
	return journal.Stall{ID: journal.StallID(m.id, kind, path, since), Saga: m.id, Definition: m.started.Definition, Version: int(m.started.Version),
		Labels: m.labels, Kind: kind, Path: path, Since: since, Why: why}
}
