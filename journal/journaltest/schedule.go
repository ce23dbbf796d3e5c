package journaltest

import (
	"sync"
	"time"
)

var scheduleTests = []test{
	{"when each last fired", fired},
	{"never back in time", firedConcurrently},
}

func fired(b *bench) {
	want := map[string]time.Time{}
	look := func() {
		b.Helper()
		got, err := b.Fired(b.ctx)
		b.must(err)
		diff(b, "fired", got, want)
	}
	look()
	for _, tt := range []struct {
		name   string
		at, is time.Time
	}{
		{"nightly", epoch, epoch}, {"höurly '\"", epoch.Add(time.Hour), epoch.Add(time.Hour)}, {"nightly", epoch.Add(time.Millisecond), epoch.Add(time.Millisecond)},
		{"nightly", epoch, epoch.Add(time.Millisecond)}, {"nightly", epoch.Add(time.Millisecond), epoch.Add(time.Millisecond)},
	} {
		b.must(b.SetFired(b.ctx, tt.name, tt.at))
		want[tt.name] = tt.is
		look()
	}
}

func firedConcurrently(b *bench) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := b.SetFired(b.ctx, "s", epoch.Add(time.Duration(i*7%16)*time.Second)); err != nil {
				b.Errorf("set: %v", err)
			}
		})
	}
	wg.Wait()
	got, err := b.Fired(b.ctx)
	b.must(err)
	diff(b, "fired", got, map[string]time.Time{"s": epoch.Add(15 * time.Second)})
}
