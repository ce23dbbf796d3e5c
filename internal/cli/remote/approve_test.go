package remote

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/saga"
)

// An approval shows hidden characters as escapes, and so those that change how others read.
func TestApprovalShowsHiddenText(t *testing.T) {
	t.Parallel()
	e := InboxEntry{Kind: saga.InboxApproval, Title: "Pay?", Shown: json.RawMessage("{\"to\": \"account \u202e321\"}")}
	var out strings.Builder
	app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
	showRequest(app, e)
	printEntry(app, e, "")
	if strings.Contains(out.String(), "\u202e") || strings.Count(out.String(), `account \u{202e}321`) != 2 {
		t.Errorf("%s", out.String())
	}
}
