package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"recourse/examples/internal/command"
)

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-key", "k", "-seed", "7", "-one-by-one", "-delay", "1ms"}, in, io.Discard)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	base := strings.TrimSpace(strings.TrimPrefix(line, "llm stub listening on "))
	if err != nil || !strings.HasSuffix(base, "/v1") {
		t.Fatalf("it says %q, %v", line, err)
	}
	for key, want := range map[string]int{"": http.StatusUnauthorized, "k": http.StatusOK} {
		r, err := http.NewRequestWithContext(ctx, "POST", base+"/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with the key %q: %d, want %d", key, resp.StatusCode, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-nothing"}, {"more"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"-listen", "nowhere"}, io.Discard, io.Discard); err == nil {
		t.Error("it listens nowhere")
	}
}
