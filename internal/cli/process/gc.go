package process

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"recourse/internal/cli"
)

// The heap may grow to five times a small live heap before it is collected, a larger one to
// smallHeap, and a large one to twice its live size.
const (
	seldom    = 400
	smallHeap = 320 << 20
)

// CollectSeldom makes garbage collections rare while the live heap is small, unless GOGC or
// GOMEMLIMIT is set: the live heap of a server is small compared with the garbage of its requests.
// It sets a soft memory limit, so that a fast-growing heap is collected in time.
func CollectSeldom(a *cli.App) {
	if a.Variables["GOGC"] != "" || a.Variables["GOMEMLIMIT"] != "" {
		return
	}
	debug.SetGCPercent(seldom)
	debug.SetMemoryLimit(smallHeap)
	go func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		every := time.NewTicker(time.Second)
		defer every.Stop()
		now := int64(smallHeap)
		for {
			select {
			case <-a.Ctx.Done():
				return
			case <-every.C:
			}
			metrics.Read(live)
			want := max(smallHeap, 2*int64(live[0].Value.Uint64()))
			if want != now {
				debug.SetMemoryLimit(want)
				now = want
			}
		}
	}()
}
