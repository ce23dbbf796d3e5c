package arch

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldWords are words that the project does not use, with what it says instead. They are looked for
// in code, comments and every text that users read, and in the parts of identifiers.
var oldWords = map[string]string{ // in lower case
	"any more": "no longer", "anew": "again", "for ever": "forever",
	"beside": "besides, next to, or in parallel with", "ahead of": "before", "behind": "after, or later",
	"mend": "fix", "mends": "fixes", "mended": "fixed",
	"wish": "command", "wishes": "commands", "unsure": "inconclusive",
	"poke": "wake", "pokes": "wakes", "relearn": "reregister", "crew": "goroutine pool", "sortout": "reconcile", "setaside": "giveUp",
	"respite": "takeover delay", "tale": "saga state", "dossier": "saga page", "shelf": "journal cache", "brittle": "faultstore",
	"saga go on": "Resume a paused saga", "waits for anybody": "Inbox is empty", "made a mistake": "Internal server error",
	"time-out": "timeout", "time-outs": "timeouts",
	"other side": "the remote service", "fell silent": "stopped sending heartbeats",
	"under way": "in flight", "under_way": "in_flight",
	"whoever": "a noun, such as the next owner",
	"mailbox": "recipient", "mailboxes": "recipients", "mailroom": "message window",
	"thenask": "NextAwaitResolution", "thenhold": "NextAwaitCredentials", "thenstick": "NextBlock", "thenunsure": "NextInconclusive",
	"orderdata": "CommandData", "journal.mail": "journal.Message", "journal.fate": "journal.TaskEnd",
}

// oldNames are identifiers that the project does not use, in lower case, with what it says instead.
// They are words that texts may use in another sense.
var oldNames = map[string]string{
	"mail": "message", "mails": "messages", "stick": "block", "takenon": "Acquired", "grew": "Appended", "standing": "snapshot",
	"fate": "TaskEnd", "told": "reported", "stranger": "unheld", "strangers": "unheld",
	"histories": "linearizability", "chance": "random",
}

// rightUses are the phrases in which an old word is right, with the reason.
var rightUses = map[string]map[string]string{ // by old word; all in lower case
	"behind": {
		"behind a ": "a server, and its proxy, pooler or firewall", "behind pgbouncer": "the same", "behind your tls": "the same",
		"lag behind": "a replica, an index or a clock", "lags behind": "the same", "step behind": "the same",
		"left-behind-is-failure": "the name of a deliberate bug",
	},
}

// namePart matches a word of an identifier.
var namePart = regexp.MustCompile(`[A-Z]?[a-z]+`)

// oldNamesIn lists the old names among the identifiers of a Go file, and the identifiers that have
// an old word as a part, one line each.
func oldNamesIn(file string, text []byte) (list []string, err error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		instead := oldNames[strings.ToLower(id.Name)]
		for _, part := range namePart.FindAllString(id.Name, -1) {
			if part = strings.ToLower(part); part != strings.ToLower(id.Name) && rightUses[part] == nil {
				instead = cmp.Or(instead, oldWords[part])
			}
		}
		if instead != "" {
			list = append(list, fmt.Sprintf("%s: %s: name it %s", fset.Position(id.Pos()), id.Name, instead))
		}
		return true
	})
	return list, nil
}

// worded reports whether a file's text is held to oldWords: not recorded data, nor the list itself.
func worded(file string) bool {
	switch filepath.Ext(file) {
	case ".go", ".md", ".yaml", ".yml", ".html", ".css", ".sql", ".js", ".json", ".sh", ".txt", ".service":
	default:
		return file == "Makefile" || file == "deploy/Containerfile"
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
			whole := (at == 0 || !letter(text[at-1])) && (from == len(text) || !letter(text[from]))
			if whole && !right(old, text[max(0, at-20):min(len(text), from+20)]) {
				list = append(list, fmt.Sprintf("%s:%d: %q: write %s", file, 1+bytes.Count(text[:at], []byte("\n")), old, oldWords[old]))
			}
		}
	}
	return list
}

// right reports whether an old word is used as in rightUses. around is the text around it.
func right(old string, around []byte) bool {
	line := strings.Join(strings.Fields(string(around)), " ") + " "
	for phrase := range rightUses[old] { // any order
		if strings.Contains(line, phrase) {
			return true
		}
	}
	return false
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// No text of the project has a word that the project does not use.
func TestOldWords(t *testing.T) {
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
		"it is not sent any more":                    1,
		"a time-out of 3s, and the other side":       2,
		"`requests_under_way`":                       1,
		"d.Next == saga.ThenHold, anewly":            1,
		"anyone may retry; the timeout is 3s":        0,
		"the request is in flight, not underwater":   0,
		"Behind a pooler, a standby may lag\nbehind": 0,
		"what comes behind it, beside the others":    2,
	} {
		if got := found("f", []byte(text)); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
	const source = "package p\nfunc (s Fate) runBeside(told int) { s.Mailing = `mail`; s.farBehind() } // a stranger"
	if got, err := oldNamesIn("f", []byte(source)); err != nil || len(got) != 3 {
		t.Errorf("found %q, %v, want Fate, runBeside and told", got, err)
	}
}
