package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recourse/internal/test/program"
)

var (
	shellOf = regexp.MustCompile("(?s)```sh\n(.*?)```")
	yamlOf  = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// Every command of docs/quickstart.md works, in its order, with the demo, and so does its
// definition.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	d := newDemo(t, databases["sqlite"](t))
	ids := strings.NewReplacer("UNDONE", d.saga("refund-claim", "compensated").ID,
		"DOUBTFUL", d.saga("order-return", "stuck").ID, "ASKING", d.saga("refund-claim", "waiting").ID)

	dir := t.TempDir()
	source := yamlOf.FindSubmatch(text)
	if source == nil {
		t.Fatal("the page has no definition")
	}
	if err := os.WriteFile(filepath.Join(dir, "gift.yaml"), source[1], 0o600); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, block := range shellOf.FindAllSubmatch(text, -1) {
		for line := range strings.Lines(string(block[1])) {
			tried++
			if strings.Contains(line, "NEWEST") {
				newest := d.sagas("gift")[0].ID
				d.becomes(newest, "waiting") // it has charged, and waits for the cooling-off time
				line = strings.ReplaceAll(line, "NEWEST", newest)
			}
			d.types(dir, ids.Replace(line))
		}
	}
	if tried < 10 {
		t.Errorf("the page has %d commands", tried)
	}
	d.becomes(d.sagas("gift")[0].ID, "compensated") // it was cancelled
}

// types runs a shell command as in another terminal than the demo's.
func (d *demo) types(dir, line string) {
	d.t.Helper()
	path := program.Path(d.t)
	if !strings.HasPrefix(line, "bin/recourse ") {
		d.t.Errorf("not a command of recourse: %s", line)
	}
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", path+strings.TrimPrefix(line, "bin/recourse"))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "RECOURSE_SERVER="+d.url)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Errorf("%s: %v\n%s", line, err, out)
	}
}
