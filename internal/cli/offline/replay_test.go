package offline

import (
	"io"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/internal/cli/remote"
)

// Flags that would be ignored are refused: the result would be about other sagas or records.
func TestReplayFlagsThatDoNotFit(t *testing.T) {
	t.Parallel()
	app := cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	const id = "01930000-0000-7000-8000-000000000000"
	for name, c := range map[string]Replay{
		"a server's sagas, --saga":       {Against: "new.yaml", journalFile: journalFile{Saga: id}},
		"a server's sagas, --definition": {Against: "new.yaml", journalFile: journalFile{Definition: "old.yaml"}},
		"a server's sagas, --actions":    {Against: "new.yaml", journalFile: journalFile{ActionFlags: definition.ActionFlags{Actions: []string{"actions"}}}},
		"a server's sagas, --at":         {Against: "new.yaml", At: 3},
		"a journal, --at":                {Against: "new.yaml", At: 3, journalFile: journalFile{File: "j.ndjson"}},
		"a journal, --sagas":             {Against: "new.yaml", journalFile: journalFile{File: "j.ndjson"}, ReplayFlags: remote.ReplayFlags{Sagas: "status=failed"}},
	} {
		c.Server, c.Limit = "http://127.0.0.1:1", 100 // nothing is requested
		if err := c.Run(app); cli.ExitCode(err) != cli.Usage || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%s: exit %d: %v", name, cli.ExitCode(err), err)
		}
	}
}
