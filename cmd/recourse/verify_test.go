package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/verify"
	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// pays charges, then waits.
const pays = `saga: pays
steps:
  - id: pay
    http: POST http://pay.example/charges
    body: {amount: 19.10}
    in_doubt: retry
    retry: {attempts: 3, initial: 1s, jitter: 0}
    compensate: {http: "POST http://pay.example/refunds", body: {of: "${output.id}"}}
  - id: check
    fail: "no"
`

// paid is the journal of a saga that is undone, and the remote service's ledger of it, one line per
// request.
type paid struct {
	played storytest.Played
	lines  []string
}

func pay(t *testing.T, id string) paid {
	t.Helper()
	var p paid
	p.played = storytest.Play(t, pays, storytest.Script{ID: id, Answer: func(s machine.Send, at time.Time) saga.Answer {
		line := fmt.Sprintf(`{"at":%q,"method":%q,"path":%q,"key":%q`, at.Format(time.RFC3339Nano), s.Request.Method, s.Request.URL, s.Key)
		if s.Way == journal.Do {
			line += `,"effect":"ch_1"}`
		} else {
			line += `,"undoes":"ch_1"}`
		}
		p.lines = append(p.lines, line)
		return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{"id":"ch_1"}`)}
	}})
	if got := p.played.Machine.Status(); got != saga.Compensated {
		t.Fatalf("the saga ends as %s", got)
	}
	return p
}

func (p *paid) export(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, r := range p.played.Records {
		raw, err := journal.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "{\"saga\":%q,%s\n", p.played.ID, raw[1:])
	}
	return b.String()
}

// verdictOf runs verify -o json and decodes its output.
func verdictOf(t *testing.T, args ...string) (verify.Verdict, result) {
	t.Helper()
	r := run(t, nil, append([]string{"verify", "-o", "json"}, args...)...)
	var v verify.Verdict
	if r.out != "" {
		if err := json.Unmarshal([]byte(r.out), &v); err != nil {
			t.Fatalf("%v: %s", err, r.out)
		}
	}
	return v, r
}

// wants checks which invariants are violated, and the exit code.
func wants(t *testing.T, v verify.Verdict, r result, invariants ...int) {
	t.Helper()
	var got []int
	for _, f := range v.Violations {
		got = append(got, f.Invariant)
	}
	code := cli.OK
	if len(invariants) > 0 {
		code = cli.Failed
	}
	if !slices.Equal(got, invariants) || r.code != code || v.OK != (len(invariants) == 0) {
		t.Errorf("violations of %v, want %v; exit %d\n%s%s", got, invariants, r.code, r.out, r.errOut)
	}
}

const other = "019aa5d0-0000-7000-8000-000000000002"

// Journals come in files, one or several in each, and in directories; each is checked against the
// definition that it names.
func TestVerifyFindsJournalsAndDefinitions(t *testing.T) {
	t.Parallel()
	first, second := pay(t, ""), pay(t, other)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("one.ndjson", first.export(t))
	write("notes.txt", "not a journal")
	var bare []string // a page of the API does not name its saga, but the file name does
	for _, r := range second.played.Records {
		raw, err := journal.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		bare = append(bare, string(raw))
	}
	named := write(other+".json", `{"data":[`+strings.Join(bare, ",")+`]}`)
	both := file(t, "both.jsonl", first.export(t)+second.export(t))
	def, wrong := file(t, "pays.yaml", pays), file(t, "pays.yaml", pays+"# changed\n")
	records := len(first.played.Records)

	for _, tt := range []struct {
		name            string
		args            []string
		sagas, replayed int
	}{
		{"a file", []string{one, "-d", def}, 1, 1},
		{"a file that is named after its saga", []string{named, "--definition", def}, 1, 1},
		{"two files", []string{one, named, "--definitions", filepath.Dir(def)}, 2, 2},
		{"a directory", []string{dir, "-d", wrong, "-d", def}, 2, 2},
		{"two journals in a file", []string{both, "-d", def}, 2, 2},
		{"without a definition", []string{both}, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, r := verdictOf(t, tt.args...)
			wants(t, v, r)
			if v.Sagas != tt.sagas || v.Replayed != tt.replayed || v.Records != tt.sagas*records {
				t.Errorf("%d sagas, %d replayed, %d records", v.Sagas, v.Replayed, v.Records)
			}
		})
	}
	v, r := verdictOf(t, one, "-d", wrong)
	if r.code != cli.Usage || len(v.Missing) != 1 || v.Missing[0].SHA256 != first.played.Def.SHA256 || !strings.Contains(r.errOut, first.played.Def.SHA256) {
		t.Errorf("a missing definition: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	checkGolden(t, "verify", ok(t, nil, "verify", both, "-d", def))
	r = runWith(t, strings.Replace(first.export(t), "19.10", "91.10", 1), nil, "verify", "-")
	if r.code != cli.Failed {
		t.Errorf("a changed journal: exit %d", r.code)
	}
	checkGolden(t, "verify-bad", r.out+r.errOut)
}

// The journals are compared with the ledger of the remote service, as far as it goes.
func TestVerifyComparesALedger(t *testing.T) {
	t.Parallel()
	p := pay(t, "")
	journal, def := file(t, "j.ndjson", p.export(t)), file(t, "pays.yaml", pays)
	effect, undo := p.lines[0], p.lines[1]
	foreign := `{"at":"2026-11-21T10:00:00Z","key":"another client's","method":"post","path":"/charges","effect":true}`
	without := func(line, part string) string { return strings.Replace(line, part, "", 1) }
	sends := func(line string) string { line, _, _ = strings.Cut(line, `,"effect"`); return line + "}" }
	for _, tt := range []struct {
		name  string
		lines []string
		args  []string
		want  []int
	}{
		{"all of it", []string{effect, undo}, []string{"--complete"}, nil},
		{"in any order, with what the paths would say left out", []string{without(undo, `"path":"http://pay.example/refunds",`), effect}, nil, nil},
		{"others' requests too", []string{effect, undo, foreign}, nil, nil},
		{"others' requests where there are none", []string{effect, undo, foreign}, []string{"--complete"}, []int{4}},
		{"only requests", []string{sends(effect)}, nil, nil},
		{"another path", []string{strings.Replace(effect, "charges", "refunds", 1), undo}, nil, []int{4}},
		{"another body", []string{strings.Replace(effect, `"effect"`, `"body_sha256":"00","effect"`, 1), undo}, nil, []int{4}},
		{"sent twice", []string{effect, undo, without(effect, `,"effect":"ch_1"`)}, nil, []int{4}},
		{"delivered twice", []string{effect, undo, strings.Replace(effect, `"effect":"ch_1"`, `"duplicate":true`, 1)}, nil, nil},
		{"two effects", []string{effect, undo, strings.Replace(effect, `"ch_1"`, `"ch_2"`, 1)}, nil, []int{4, 6, 8}},
		{"not undone", []string{effect}, nil, []int{8}},
		{"not undone, by a ledger of another service", []string{effect}, []string{"--ledger-of", "http://ship.example"}, nil},
		{"not undone, when the ledger was written", []string{effect}, []string{"--ledger-until", "2026-11-21T10:00:00Z"}, nil},
		{"too early", []string{strings.Replace(effect, "T10:", "T09:", 1), undo}, nil, []int{4}},
		{"a little early", []string{strings.Replace(effect, "T10:00:00", "T09:59:59", 1), undo}, nil, nil},
		{"a little early, by one clock", []string{strings.Replace(effect, "T10:00:00", "T09:59:59", 1), undo}, []string{"--skew", "0s"}, []int{4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, text := range []string{strings.Join(tt.lines, "\n") + "\n", "[" + strings.Join(tt.lines, ",") + "]"} {
				v, r := verdictOf(t, append([]string{journal, "-d", def, "--ledger", file(t, "l", text)}, tt.args...)...)
				wants(t, v, r, tt.want...)
			}
		})
	}
}

func TestVerifyStartsAndSecrets(t *testing.T) {
	t.Parallel()
	p := pay(t, "")
	journal := file(t, "j.ndjson", p.export(t))
	started := fmt.Sprintf(`{"id":%q,"input":null,"key":"k"}`, p.played.ID)
	v, r := verdictOf(t, journal, "--starts", file(t, "s", started), "--canaries", file(t, "c", "correct horse\n"))
	wants(t, v, r)
	v, r = verdictOf(t, journal, "--starts", file(t, "s", started+"\n"+`{"id":"`+other+`"}`), "--canaries", file(t, "c", "correct horse\n\npay.example\n"))
	if r.code != cli.Failed || v.Violations[0].Invariant != 1 || v.Violations[len(v.Violations)-1].Invariant != 19 || strings.Contains(r.out, "pay.example") {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
}

func TestVerifyMistakes(t *testing.T) {
	t.Parallel()
	p := pay(t, "")
	journal := file(t, "j.ndjson", p.export(t))
	junk := file(t, "junk.db", strings.Repeat("this is no database ", 100))
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing", nil, cli.Usage, "--database"},
		{"both", []string{journal, "--database", junk}, cli.Usage, "or a --database"},
		{"twice", []string{journal, journal}, cli.Usage, "give it once"},
		{"an empty directory", []string{t.TempDir()}, cli.Usage, ".ndjson"},
		{"no ledger", []string{journal, "--complete"}, cli.Usage, "--ledger"},
		{"no time", []string{journal, "--ledger", file(t, "l", `{"at":"now","key":"k"}`)}, cli.Usage, "entry 1"},
		{"no key", []string{journal, "--ledger", file(t, "l", `{"at":"2026-11-21T10:00:00Z"}`)}, cli.Usage, "`key`"},
		{"no JSON", []string{journal, "--ledger", file(t, "l", `{"at":"2026-11-21T10:00:00Z","key":"k"}`+"\nhello")}, cli.Usage, "entry 2"},
		{"no effect", []string{journal, "--ledger", file(t, "l", `{"at":"2026-11-21T10:00:00Z","key":"k","effect":7}`)}, cli.Usage, "`effect`"},
		{"no kind", []string{journal, "--ledger", file(t, "l", `{"at":"2026-11-21T10:00:00Z","key":"k","kind":"x"}`)}, cli.Usage, "there are request"},
		{"no start", []string{journal, "--starts", file(t, "s", `{"saga":"x"}`)}, cli.Usage, "acknowledged start"},
		{"no secret", []string{journal, "--canaries", file(t, "c", "x")}, cli.Usage, "line 1"},
		{"no span", []string{journal, "--skew", "1 s", "--ledger", file(t, "l", "")}, cli.Usage, "--skew"},
		{"no id", []string{journal, "--saga", "x"}, cli.Usage, "not an id"},
		{"since when", []string{journal, "--since", "1h"}, cli.Usage, "--database"},
		{"no database", []string{"--database", filepath.Join(t.TempDir(), "none.db")}, cli.Usage, "no file"},
		{"a database of something else", []string{"--database", junk}, cli.Usage, "not a SQLite file"},
		{"a database of another kind", []string{"--database", "mysql://x/y"}, cli.Usage, "only postgres://"},
		{"PostgreSQL is down", []string{"--database", "postgres://u:secretword@127.0.0.1:1/d"}, cli.Unreachable, "cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, nil, append([]string{"verify"}, tt.args...)...)
			if r.code != tt.code || !strings.Contains(r.errOut, tt.says) || r.out != "" || strings.Contains(r.errOut, "secretword") {
				t.Errorf("exit %d, not %d, or %q is not said: %s%s", r.code, tt.code, tt.says, r.errOut, r.out)
			}
		})
	}
}
