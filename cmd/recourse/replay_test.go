package main

import (
	"encoding/json"
	"fmt"
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

// exported returns a journal in each form of export.
func exported(t *testing.T) (source string, p storytest.Played, forms map[string]string) {
	t.Helper()
	source = "saga: trip\nsteps:\n  - id: book\n    http: POST http://127.0.0.1:7000/x\n    body: {n: 9007199254740993}\n    in_doubt: ask\n    compensate: none\n"
	p = storytest.Play(t, source, storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer { return saga.InterruptedAnswer() }})
	var lines, list []string
	for _, r := range p.Records {
		b, err := journal.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(b))
		lines = append(lines, fmt.Sprintf(`{"saga":%q,%s`, p.ID, b[1:]))
	}
	array := "[" + strings.Join(list, ",\n") + "]"
	return source, p, map[string]string{
		"ndjson": strings.Join(lines, "\n") + "\n",
		"array":  array,
		"page":   `{"data":` + array + `,"next_cursor":"7"}`,
		"pages":  `{"data":[` + list[0] + `]}` + "\n" + `{"data":[` + strings.Join(list[1:], ",") + `]}`,
	}
}

func TestReplayAndVerifyTakeEveryForm(t *testing.T) {
	t.Parallel()
	source, p, forms := exported(t)
	def := file(t, "trip.yaml", source)
	for name, text := range forms {
		t.Run(name, func(t *testing.T) {
			path := file(t, "j", text)
			id := p.ID.String()
			if out := ok(t, nil, "verify", path, "--saga", id, "-d", def); !strings.Contains(out, "1 saga, 3 records: no violations") || !strings.Contains(out, " 2  journals have no gaps, are hash-chained, replay, and end once\n") {
				t.Errorf("verify: %s", out)
			}
			checkGolden(t, "replay", ok(t, nil, "replay", path, "--saga", id, "-d", def))
			var s struct {
				Records []json.RawMessage
				Status  string
			}
			if out := ok(t, nil, "replay", path, "--saga", id, "-d", def, "-o", "json"); json.Unmarshal([]byte(out), &s) != nil || len(s.Records) != 3 || s.Status != "stuck" {
				t.Errorf("as JSON: %s", out)
			}
		})
	}
	path := file(t, "j", forms["array"])
	if r := run(t, nil, "verify", path); r.code != cli.Usage || !strings.Contains(r.errOut, "--saga") {
		t.Errorf("no id: exit %d: %s", r.code, r.errOut)
	}
	other := file(t, "other.yaml", source+"# changed\n")
	if r := run(t, nil, "verify", path, "--saga", p.ID.String(), "-d", other); r.code != cli.Usage || !strings.Contains(r.errOut, "lacks the saga's definition") {
		t.Errorf("another definition: exit %d: %s", r.code, r.errOut)
	}
	if r := runWith(t, "hello", nil, "replay", "-"); r.code != cli.Usage {
		t.Errorf("no journal: exit %d: %s", r.code, r.errOut)
	}
	checkGolden(t, "replay-at", ok(t, nil, "replay", file(t, "j", forms["ndjson"]), "-d", def, "--at", "2"))
}

// A journal with correct hashes that no saga of the definition can have.
func TestVerifyReplays(t *testing.T) {
	t.Parallel()
	source, p, _ := exported(t)
	records := p.Records
	records[2].Path = "elsewhere"
	var prev []byte
	var lines []string
	for i := range records {
		journal.Seal(p.ID, prev, &records[i])
		prev = records[i].Hash
		b, err := journal.Encode(records[i])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	path := file(t, "j", strings.Join(lines, "\n"))
	ok(t, nil, "verify", path, "--saga", p.ID.String())
	r := run(t, nil, "verify", path, "--saga", p.ID.String(), "-d", file(t, "d.yaml", source), "-o", "json")
	var v verify.Verdict
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != cli.Failed || v.OK || v.Violations[0].Seq != 3 || v.Violations[0].Invariant != 2 {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
}
