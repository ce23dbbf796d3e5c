package egresstest_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"recourse/internal/egress/egresstest"
)

const child = "RECOURSE_TEST_PLAIN_CLIENT"

// The contract finds what is wrong with net/http's client.
func TestContractCanFail(t *testing.T) {
	if os.Getenv(child) != "" {
		t.Skip("it runs the test below")
	}
	run := exec.Command(os.Args[0], "-test.run=^TestPlainClient$")
	run.Env = append(os.Environ(), child+"=1")
	out, err := run.CombinedOutput()
	if err == nil {
		t.Fatalf("net/http's client passes:\n%s", out)
	}
	for _, part := range []string{"at_most_one_send", "redirects", "messages", "addresses"} {
		if !strings.Contains(string(out), "--- FAIL: TestPlainClient/"+part) {
			t.Errorf("%s passes", part)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

func TestPlainClient(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("TestContractCanFail runs it")
	}
	egresstest.Run(t, egresstest.Sender{New: func(t *testing.T, cfg egresstest.Config) egresstest.Send {
		tr := &http.Transport{TLSClientConfig: cfg.TLS()}
		t.Cleanup(tr.CloseIdleConnections)
		return func(ctx context.Context, url string) egresstest.Result {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				return egresstest.Result{}
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return egresstest.Result{OK: resp.StatusCode/100 == 2}
		}
	}})
}
