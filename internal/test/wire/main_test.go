package wire_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// TestMain sees to it that no goroutine outlives the tests.
func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled)               // some toxics log to a logger of their own
	if err := flag.Set("test.parallel", "4"); err != nil { // most of the time they wait
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		// A driver takes up to 15 s to give a silent connection up.
		if err := left(40 * time.Second); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// left waits until no goroutines are left but those of the test's own tools, and says which ones
// are.
func left(patience time.Duration) (err error) {
	tools := []goleak.Option{
		goleak.IgnoreAnyFunction("testing.(*M).Run"), goleak.IgnoreAnyFunction("testing.tRunner"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"), // a server's log
		// A toxic may be removed while it writes.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	}
	for deadline := time.Now().Add(patience); ; {
		if err = goleak.Find(tools...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// A goroutine that stays is noticed.
func TestLeftCanFail(t *testing.T) {
	stays := make(chan struct{})
	go func() { <-stays }()
	err := left(0)
	close(stays)
	if err == nil || !strings.Contains(err.Error(), "TestLeftCanFail") {
		t.Errorf("left = %v", err)
	}
}
