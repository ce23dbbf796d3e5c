package remote

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// A budget that is set while the saga goes on is set, unless the flag --if-seq asks for a check.
// If the response is lost, the request is repeated with its key.
func TestBudgetOfASagaThatGoesOn(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for seq, want := range map[int64]string{0: "*", 7: `"7"`} {
		keys := make(map[string]int)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPatch || r.Header.Get("If-Match") != want || r.Header.Get("Idempotency-Key") == "" {
				t.Errorf("%s %s: %v", r.Method, r.URL, r.Header)
			}
			if keys[r.Header.Get("Idempotency-Key")]++; len(keys) == 1 && keys[r.Header.Get("Idempotency-Key")] == 1 {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, `{"id": "`+id+`", "status": "running", "cost": {"spent": "1.00", "budget": "2.00", "currency": "USD"}}`)
		}))
		defer server.Close()
		var out bytes.Buffer
		app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
		err := (&Budget{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "text"}, Saga: id, Amount: "2.00 USD", IfSeq: seq}).Run(app)
		if err != nil || len(keys) != 1 || !strings.Contains(out.String(), "2.00 USD") {
			t.Errorf("--if-seq %d: %v with %d keys: %s", seq, err, len(keys), out.String())
		}
	}
}
