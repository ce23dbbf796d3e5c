package recount

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Few things are counted on each call.
func TestFew(t *testing.T) {
	var n atomic.Int64
	k := New(func(context.Context) (int64, int64, error) { return n.Add(1), many - 1, nil })
	defer k.Close()
	for want := int64(1); want <= 5; want++ {
		if got, err := k.Get(t.Context()); got != want || err != nil {
			t.Errorf("count %d is %d, %v", want, got, err)
		}
	}
}

// The first count of many things is waited for. Later ones run in the background, and the caller
// gets the previous result.
func TestMany(t *testing.T) {
	asked, answers := make(chan struct{}), make(chan int64)
	k := New(func(ctx context.Context) (int64, int64, error) {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		select {
		case n := <-answers:
			return n, many, nil
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	})
	defer k.Close()
	get := func(want int64) {
		t.Helper()
		if got, err := k.Get(t.Context()); got != want || err != nil {
			t.Fatalf("Get = %d, %v; want %d", got, err, want)
		}
	}
	go func() { <-asked; answers <- 1 }()
	get(1)
	k.mu.Lock()
	k.until = time.Now().Add(time.Hour)
	k.mu.Unlock()
	get(1) // and it is not counted: nobody would answer
	k.mu.Lock()
	if k.counting {
		t.Error("it is counted before its time")
	}
	k.until = time.Time{}
	k.mu.Unlock()
	get(1)
	<-asked
	get(1) // while it is counted, once
	answers <- 2
	for {
		got, err := k.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got == 2 {
			break
		}
		runtime.Gosched()
	}
	k.mu.Lock()
	k.until = time.Time{}
	k.mu.Unlock()
	get(2)
	<-asked // Close ends it
}

func TestFails(t *testing.T) {
	broken := errors.New("broken")
	k := New(func(context.Context) (int, int64, error) { return 0, 0, broken })
	if _, err := k.Get(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Get = %v, want %v", err, broken)
	}
	k.Close()
}
