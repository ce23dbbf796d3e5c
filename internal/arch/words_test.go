package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oldWords are words that the project does not use, with what it says instead. They are looked for
// in code, comments and every text that users read.
var oldWords = map[string]string{ // in lower case
	"any more": "no longer", "anew": "again", "for ever": "forever",
	"time-out": "timeout", "time-outs": "timeouts",
	"other side": "the remote service", "fell silent": "stopped sending heartbeats",
	"under way": "in flight", "under_way": "in_flight",
	"whoever": "a noun, such as the next owner",
	"mailbox": "recipient", "mailboxes": "recipients", "mailroom": "message window",
	"thenask": "NextAwaitResolution", "thenhold": "NextAwaitCredentials", "thenstick": "NextBlock", "thenunsure": "NextInconclusive",
	"orderdata": "CommandData", "journal.mail": "journal.Message", "journal.fate": "journal.TaskEnd", "journal.respite": "journal.TakeoverDelay",
}

// oldNames are identifiers that the project does not use, in lower case, with what it says instead.
// They are words that texts may use in another sense.
var oldNames = map[string]string{
	"orderdata": "CommandData", "wish": "command", "mail": "message", "mails": "messages",
	"stick": "block", "unsure": "inconclusive", "takenon": "Acquired", "grew": "Appended", "setaside": "giveUp",
	"poke": "wake", "relearn": "reregister", "crew": "goroutinePool", "sortout": "reconcile", "standing": "snapshot",
	"respite": "takeoverDelay", "fate": "TaskEnd", "told": "reported", "stranger": "unheld", "strangers": "unheld",
	"tale": "sagaState", "dossier": "sagaPage", "shelf": "journalCache",
	"brittle": "faultstore", "histories": "linearizability", "chance": "random",
}

// oldNamesIn lists the old names among the identifiers of a Go file, one line each.
func oldNamesIn(file string, text []byte) (list []string, err error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if instead := oldNames[strings.ToLower(id.Name)]; instead != "" {
				list = append(list, fmt.Sprintf("%s: %s: name it %s", fset.Position(id.Pos()), id.Name, instead))
			}
		}
		return true
	})
	return list, nil
}

// worded reports whether a file's text is held to oldWords: not recorded data, nor the list itself.
func worded(file string) bool {
	switch filepath.Ext(file) {
	case ".go", ".md", ".yaml", ".yml", ".html", ".sql", ".js", ".json", ".sh", ".txt":
	default:
		return file == "Makefile"
	}
	return file != "internal/arch/words_test.go" && !strings.Contains(file, "testdata/fuzz/")
}

// found lists the old words in a text, one line each.
func found(file string, text []byte) (list []string) {
	text = bytes.ToLower(text)
	for _, old := range slices.Sorted(maps.Keys(oldWords)) {
		for from := 0; ; {
			at := bytes.Index(text[from:], []byte(old))
			if at < 0 {
				break
			}
			at += from
			from = at + len(old)
			if (at == 0 || !letter(text[at-1])) && (from == len(text) || !letter(text[from])) {
				list = append(list, fmt.Sprintf("%s:%d: %q: write %s", file, 1+bytes.Count(text[:at], []byte("\n")), old, oldWords[old]))
			}
		}
	}
	return list
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// No text of the project has a word that the project does not use.
func TestOldWords(t *testing.T) {
	t.Parallel()
	ls := exec.Command("git", "ls-files")
	ls.Dir = "../.."
	out, err := ls.Output()
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if !worded(file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", file))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found(file, text) {
			t.Error(f)
		}
		if filepath.Ext(file) != ".go" {
			continue
		}
		list, err := oldNamesIn(file, text)
		if err != nil {
			t.Error(err)
		}
		for _, f := range list {
			t.Error(f)
		}
	}
}

// The list finds what it is there for, and leaves other words alone.
func TestOldWordsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"it is not sent any more":                  1,
		"a time-out of 3s, and the other side":     2,
		"`requests_under_way`":                     1,
		"d.Next == saga.ThenHold, anewly":          1,
		"anyone may retry; the timeout is 3s":      0,
		"the request is in flight, not underwater": 0,
	} {
		if got := found("f", []byte(text)); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
	const source = "package p\nfunc (s Shelf) f(told int) { s.Mailing = `mail` } // a stranger"
	if got, err := oldNamesIn("f", []byte(source)); err != nil || len(got) != 2 {
		t.Errorf("found %q, %v, want shelf and told", got, err)
	}
}
