package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/examples/internal/command"
	"recourse/examples/world"
)

// mustRun runs the program until it listens, and returns its URL and a function that stops it.
func mustRun(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, in, io.Discard)
		in.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("first line: %v", err)
	}
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "world listening on ")
	if !ok {
		t.Fatalf("first line: got %q", line)
	}
	return url, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func mustPost(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s: got %s", url, resp.Status)
	}
}

func TestRunKeepsALedgerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.ndjson")
	for range 2 {
		url, stop := mustRun(t, "-ledger", path)
		mustPost(t, url+"/things")
		stop()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(`{"n":77,"torn`) // an incomplete line, as a kill leaves it
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := world.ReadLedger(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(l) != 4 || l[3].N != 4 || len(l.Live()) != 2 || l[1].EffectID == l[3].EffectID {
		t.Errorf("ledger of both runs: got %+v", l)
	}
}

func TestRunRefuses(t *testing.T) {
	notLedger := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notLedger, []byte("buy milk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want error
	}{
		"an unknown flag":   {[]string{"-lissten", "x"}, command.ErrUsage},
		"a stray argument":  {[]string{"127.0.0.1:0"}, command.ErrUsage},
		"no ledger":         {[]string{"-ledger", notLedger}, world.ErrLedgerLine},
		"no such directory": {[]string{"-ledger", filepath.Join(notLedger, "x")}, nil},
		"no address":        {[]string{"-listen", "nowhere"}, nil},
		"help":              {[]string{"-h"}, flag.ErrHelp},
	} {
		err := run(t.Context(), tt.args, io.Discard, io.Discard)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if text, _ := os.ReadFile(notLedger); string(text) != "buy milk\n" {
		t.Errorf("a file that is no ledger was changed: %q", text)
	}
}
