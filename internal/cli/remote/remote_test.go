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

func TestExitOfStatus(t *testing.T) {
	t.Parallel()
	want := map[int]int{
		http.StatusBadRequest: cli.Usage, http.StatusUnauthorized: cli.Forbidden, http.StatusForbidden: cli.Forbidden, http.StatusNotFound: cli.NotFound,
		http.StatusConflict: cli.Conflict, http.StatusPreconditionFailed: cli.Conflict, http.StatusPreconditionRequired: cli.Conflict,
		http.StatusUnprocessableEntity: cli.Usage, http.StatusTooManyRequests: cli.Unreachable, http.StatusInternalServerError: cli.Failed,
		http.StatusServiceUnavailable: cli.Unreachable, http.StatusTeapot: cli.Failed,
	}
	for status, code := range want {
		if got := exitOfStatus(status); got != code {
			t.Errorf("%d: got exit %d, want %d", status, got, code)
		}
	}
}

// The command that raises a budget contains the required amount: in the definition's currency, in
// addition to what is spent and reserved.
func TestInboxBudgetSuffices(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		"it may cost 2 EUR; spent 0, reserved 0 of 1 EUR. Raise it.":              `"2 EUR"`,
		"it may cost 2.50 JPY; spent 1.25, reserved 0.001 of 3.00 JPY. Raise it.": `"3.751 JPY"`,
		"it may use 700 tokens; used 250, reserved 50 of 900. Raise it.":          "--tokens 1000",
		"something else": "AMOUNT",
	} {
		if got := enough(detail); got != want {
			t.Errorf("%s: %s, want %s", detail, got, want)
		}
	}
}

// TestErrorsSpeakOfCommands: the command line shows errors of the API in its own terms.
func TestErrorsSpeakOfCommands(t *testing.T) {
	t.Parallel()
	tests := []struct{ body, want string }{
		{`{"title":"The request is invalid","detail":"write it as \"2.00 USD\"","errors":[{"pointer":"/budget","code":"bad_budget","detail":"write it as \"2.00 USD\""}]}`,
			`the budget: write it as "2.00 USD"`},
		{`{"title":"The start does not match the definition","detail":"fix the fields in ` + "`errors`" + `; nothing was started, and the Idempotency-Key is still free","errors":[{"pointer":"/input/city/name","code":"required","detail":"\"name\" is missing"}]}`,
			"The start does not match the definition: fix the fields named below; nothing was started, and the --key is still free\n  --input city.name: required: \"name\" is missing"},
		{`{"title":"x","detail":"there is no status \"nope\"","errors":[{"pointer":"?status","code":"bad_status","detail":"there is no status \"nope\""}]}`, `--status: there is no status "nope"`},
		{`{"title":"x","detail":"new_key goes with the outcome retry","errors":[{"pointer":"/new_key","code":"bad_field","detail":"new_key goes with the outcome retry"}]}`,
			"--new-key: --new-key goes with the outcome retry"},
		{`{"title":"the data does not match the approval's form","detail":"/data/limit: got string, want integer","errors":[{"pointer":"/data/limit","code":"type","detail":"got string, want integer"}]}`,
			"the data does not match the approval's form: --data limit: got string, want integer\n  --data limit: type: got string, want integer"},
		{`{"title":"The saga is not paused","detail":"read the saga again: GET /v1/sagas/{id} shows its state","saga":"s1"}`,
			"The saga is not paused: read the saga again: `recourse show` shows its state (saga s1)"},
		{`{"title":"no such definition","detail":"definition \"asks\" has no version v7: GET /v1/definitions/asks/versions lists them"}`,
			"no such definition: definition \"asks\" has no version v7: `recourse definitions list` shows the newest"},
		{`{"title":"cannot reach https://a.example/input: x","detail":"at 10:00:00"}`, "cannot reach https://a.example/input: x: at 10:00:00"},
	}
	for _, tt := range tests {
		if got := problemOf(http.StatusUnprocessableEntity, []byte(tt.body)).Error(); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}

// A request that cannot be sent because of a key is an error of the command, not of the server. The
// line break at the end of a file is not part of an API key.
func TestKeysWithControlCharacters(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	for name, tt := range map[string]struct {
		apiKey, key string
		code        int
	}{
		"a line break at the end": {"rk_1\n", "order-7", cli.OK},
		"an API key of two lines": {"rk_1\nrk_2", "order-7", cli.Usage},
		"a key with a tab and ^A": {"rk_1", "order\t\x01", cli.Usage},
	} {
		cl, err := ServerFlags{Server: server.URL, APIKey: tt.apiKey}.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, err := cl.Do(Call{Method: http.MethodPost, Header: map[string]string{"Idempotency-Key": tt.key}})
		switch {
		case err == nil && tt.code == cli.OK && string(r.Body) == "Bearer rk_1":
		case tt.code == cli.OK, cli.ExitCode(err) != tt.code, !strings.Contains(err.Error(), "control character"):
			t.Errorf("%s: %q, %v", name, r.Body, err)
		}
	}
}

// The password of a proxy in --server is sent, and not printed.
func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	var out, errOut bytes.Buffer
	app := cli.New(t.Context(), nil, strings.NewReader(""), &out, &errOut)
	for at, code := range map[string]int{
		strings.Replace(server.URL, "//", "//ann:hunter2@", 1) + "/": cli.Unreachable,
		"ftp://ann:hunter2@recourse.example":                         cli.Usage,
		"http://ann:hunter2@recourse example":                        cli.Usage,
	} {
		f := ServerFlags{Server: at}
		err := (&Undo{ServerFlags: f, Saga: "01890a5d-ac96-774b-bcce-b302099a8057", Reason: "r"}).Run(app)
		if text := f.Command(app, "inbox") + err.Error(); cli.ExitCode(err) != code || strings.Contains(text, "hunter2") {
			t.Errorf("exit %d: %s", cli.ExitCode(err), text)
		}
	}
}
