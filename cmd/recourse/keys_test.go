package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/journal"
)

// A key is bound to the sources and the signals that its command names, and lists show them.
func TestKeyIsBound(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	ok(t, nil, "keys", "create", "--database", db, "--role", "client", "--name", "shop", "--source", "urn:shop", "--source", "urn:a,b", "--signal", "order-*/paid", "--signal", "refund")
	if out := ok(t, nil, "keys", "list", "--database", db); !strings.Contains(out, " urn:shop urn:a,b order-*/paid refund/*\n") {
		t.Errorf("the list:\n%s", out)
	}
	var list []keyView
	if err := json.Unmarshal([]byte(ok(t, nil, "keys", "list", "--database", db, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	want := journal.KeyBinding{Sources: []string{"urn:shop", "urn:a,b"}, Signals: []string{"order-*/paid", "refund/*"}}
	if len(list) != 1 || list[0].Name != "shop" || list[0].Role != "client" || list[0].Key != "" || !reflect.DeepEqual(list[0].KeyBinding, want) {
		t.Errorf("the list in JSON: %+v", list)
	}
}

// A wrong command neither makes a database nor migrates one, which nodes may be using.
func TestWrongKeyLeavesTheDatabaseAlone(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "none.db")
	for _, wrong := range [][]string{{"--expires", "soon"}, {"--source", ""}, {"--models", "gpt-5"}} {
		r := run(t, nil, append([]string{"keys", "create", "--database", db, "--role", "viewer"}, wrong...)...)
		if _, err := os.Stat(db); r.code != cli.Usage || !os.IsNotExist(err) {
			t.Errorf("%v: exit %d, the file: %v", wrong, r.code, err)
		}
	}
}
