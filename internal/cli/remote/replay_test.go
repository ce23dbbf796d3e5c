package remote

import (
	"io"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// Flags that refuse a changed definition are not ignored: without a replay they would let it pass.
func TestReplayThatReplaysNothing(t *testing.T) {
	t.Parallel()
	app := cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	nowhere := ServerFlags{Server: "http://127.0.0.1:1"} // nothing is requested
	for name, run := range map[string]func() error{
		"apply --refuse-on": func() error {
			return (&applyDefinitions{ServerFlags: nowhere, RefuseOn: []string{"other-end"}, Paths: []string{t.TempDir()}}).Run(app)
		},
		"apply --replay -1": func() error {
			return (&applyDefinitions{ServerFlags: nowhere, Replay: -1, Paths: []string{t.TempDir()}}).Run(app)
		},
		"replay --limit 0": func() error {
			return ReplayFlags{Limit: 0}.Replay(app, nowhere, cli.OutputFlag{}, "booking.yaml")
		},
	} {
		if err := run(); cli.ExitCode(err) != cli.Usage || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%s: exit %d: %v", name, cli.ExitCode(err), err)
		}
	}
}
