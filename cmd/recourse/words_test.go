package main

import (
	"net/http"
	"strings"
	"testing"

	"recourse/internal/test/golden"
)

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
		{`{"title":"the data breaks the approval's form","detail":"/data/limit: got string, want integer","errors":[{"pointer":"/data/limit","code":"type","detail":"got string, want integer"}]}`,
			"the data breaks the approval's form: --data limit: got string, want integer\n  --data limit: type: got string, want integer"},
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

// TestGoldenFilesSpeakOfCommands: no error of a server in the golden file contains terms of the
// API.
func TestGoldenFilesSpeakOfCommands(t *testing.T) {
	t.Parallel()
	for _, line := range strings.Split(golden.Read(t, "server"), "\n") {
		if strings.HasPrefix(line, "recourse: ") && (strings.Contains(line, "/v1/") || strings.Contains(line, "Idempotency-Key")) {
			t.Error(line)
		}
	}
}
