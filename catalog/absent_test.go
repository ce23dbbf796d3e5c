package catalog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAbsent: the server knows which secrets and definitions it has, and says so at the line that
// names one; a definition published later ends the warning.
func TestAbsent(t *testing.T) {
	have := map[string]string{"ONE": "1"}
	c, _ := newCatalog(t, Options{Secret: func(name string) (string, error) {
		if v, ok := have[name]; ok {
			return v, nil
		}
		return "", errors.New("secret " + name + " is missing: set RECOURSE_SECRET_" + name)
	}})
	const src = `saga: parent
secrets: [ONE, TWO]
steps:
  - {id: a, run: kid}
  - {id: b, run: kid@v2}
  - {id: c, run: parent}
`
	warned := func() (list []string) {
		t.Helper()
		_, def, _, err := c.Publish(t.Context(), "parent", []byte(src), "")
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.MissingDefinitions(t.Context(), def)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range slices.Concat(c.MissingSecrets(def), found) {
			word, _, _ := strings.Cut(f.Detail, ":")
			list = append(list, f.Code+" "+f.Pointer+" "+word)
		}
		return list
	}
	want := []string{"missing-secret /secrets/1 secret TWO is missing", "unknown-definition /steps/0/run this server has no definition kid", "unknown-definition /steps/1/run this server has no definition kid@v2"}
	if d := cmp.Diff(want, warned()); d != "" {
		t.Error(d)
	}
	have["TWO"] = "2"
	for _, text := range []string{"1", "2"} {
		if _, _, _, err := c.Publish(t.Context(), "kid", source("kid", text), ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := warned(); got != nil {
		t.Errorf("all is there, and yet: %v", got)
	}
	if err := c.store.Archive(t.Context(), Kind, "kid"); err != nil {
		t.Fatal(err)
	}
	if got := warned(); len(got) != 1 || !strings.Contains(got[0], "archived") {
		t.Errorf("archived: %v", got)
	}
}
