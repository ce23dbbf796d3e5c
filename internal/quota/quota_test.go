package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

func reserve(t *testing.T, a *Account, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := a.Reserve(ctx, n); err != nil {
		t.Fatalf("reserve %d: %v", n, err)
	}
}

func TestSmallNeverWaits(t *testing.T) {
	p := New(mib)
	reserve(t, p.Open(), mib)
	excess := p.Open()
	reserve(t, excess, mib)
	for range 100 {
		reserve(t, p.Open(), Free)
	}
	if got, want := p.Usage(), (Usage{mib, 2 * mib, 0}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Two readers that each hold half of the pool and want more would wait for each other forever.
func TestNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(mib)
		var readers sync.WaitGroup
		for range 2 {
			a := p.Open()
			reserve(t, a, mib/2)
			readers.Go(func() {
				if err := a.Reserve(t.Context(), mib); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				a.Close()
			})
		}
		readers.Wait()
		if got, want := p.Usage(), (Usage{Size: mib}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// A reader that exceeds the pool and whose response turns out to be small lets the next one exceed
// it, although its account stays open.
func TestSmallAnswerGivesUpItsExcess(t *testing.T) {
	p := New(mib)
	holder, excess := p.Open(), p.Open()
	reserve(t, holder, mib)
	reserve(t, excess, mib)
	excess.Shrink(Free)
	reserve(t, p.Open(), 2*mib)
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(mib)
		holder, excess := p.Open(), p.Open()
		reserve(t, holder, mib)
		reserve(t, excess, mib)
		var mu sync.Mutex
		var order []int64
		for _, n := range []int64{mib, mib / 4, mib / 2} {
			a := p.Open()
			go func() {
				if err := a.Reserve(t.Context(), n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				a.Close()
			}()
			synctest.Wait()
		}
		if got := p.Usage().Waiting; got != 3 {
			t.Fatalf("%d wait, want 3", got)
		}
		excess.Close()
		holder.Close()
		synctest.Wait()
		if len(order) != 3 || order[0] != mib {
			t.Errorf("served in the order %v, want the largest first, as it came first", order)
		}
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(mib)
		reserve(t, p.Open(), mib)
		reserve(t, p.Open(), mib)
		var calls []bool
		late := p.Open()
		late.OnWait(func(waits bool) { calls = append(calls, waits) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := late.Reserve(ctx, mib); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the wait ends", err)
		}
		if len(calls) != 2 || !calls[0] || calls[1] {
			t.Errorf("it was called with %v, want a wait and its end", calls)
		}
		if got, want := p.Usage(), (Usage{mib, 2 * mib, 0}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestShrinkLetsOthersIn(t *testing.T) {
	p := New(mib)
	a := p.Open()
	reserve(t, a, mib)
	a.Shrink(mib / 2)
	reserve(t, p.Open(), mib/2)
	if got, want := p.Usage(), (Usage{mib, mib, 0}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	a.Shrink(Free)
	if got := p.Usage().Used; got != mib/2 {
		t.Errorf("%d used, want what is small to be free", got)
	}
}

// All readers end, whatever they do. At most one of them exceeds the pool, and no bytes stay
// reserved.
func TestAnyReaders(t *testing.T) {
	const most = 8 * Free
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			p := New(16 * Free)
			var readers sync.WaitGroup
			for i := range uint64(40) {
				rng := rand.New(rand.NewPCG(seed, i))
				readers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(time.Hour))))
					defer cancel()
					a := p.Open()
					defer a.Close()
					for n := int64(Free) + 1; n <= most; n += 1 + rng.Int64N(Free) {
						if a.Reserve(ctx, n) != nil {
							return
						}
						if used := p.Usage().Used; used > 16*Free+most {
							t.Errorf("seed %d: %d used", seed, used)
						}
						time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
					}
					a.Shrink(rng.Int64N(most))
					time.Sleep(time.Duration(rng.Int64N(int64(time.Minute))))
				})
			}
			readers.Wait()
			if got, want := p.Usage(), (Usage{Size: 16 * Free}); got != want {
				t.Errorf("seed %d: got %+v, want %+v", seed, got, want)
			}
		})
	}
}
