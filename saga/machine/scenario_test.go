package machine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/internal/test/golden"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/llm"
	"recourse/saga/machine"
	"recourse/saga/replay"
)

// TestScenarios plays the files of testdata/scenarios. A file has a definition,
// an input, a script of what the world and people do, and the journal that this
// makes: read the diff of a change to see what it changes for users.
//
// A line of the script is `<path> <do|undo|query>: <answer>`, used up by the next request of that
// path, or `order: {…}`, given when the saga waits for nobody else; in it $shown is the hash that
// the first approval in the inbox shows, or `pass 1h`: the time that passes before the next line.
// An answer is a status and a body, or a transport code such as `timeout` (sent), `refused` (not
// sent), with `after=5s` for Retry-After, or `hint=read_only` for what an MCP server says. Without
// a line the answer is 200 {}.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			parts := readParts(t, file)
			p := play(t, parts)
			got := p.out.String()
			if golden.Updating() {
				parts["journal"] = got
				writeParts(t, file, parts)
				return
			}
			if d := cmp.Diff(parts["journal"], got); d != "" {
				t.Errorf("journal (-want +got), -update rewrites it:\n%s", d)
			}
			prefixes(t, p.def, p.m.ID(), p.records)
			if p.m.Ended() && p.def.Session == nil {
				if res, err := replay.Against(p.def, p.m.ID(), p.records, replay.Options{}); err != nil || res.Verdict != replay.Same {
					t.Errorf("replayed against its own definition: %+v, %v", res, err)
				}
			}
		})
	}
}

// models are what llm steps of scenarios can ask.
var models = llm.Config{
	Providers: []llm.Provider{{Name: "all", BaseURL: "https://llm.example/v1"}},
	Prices:    map[string]llm.Price{"small": {Input: "0.25", Output: "2.00"}, "large": {Input: "10", Output: "30"}},
}

var sections = []string{"about", "actions", "definition", "input", "script", "journal"}

func readParts(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]string)
	name := ""
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "== "); ok {
			name = n
			continue
		}
		parts[name] += line
	}
	return parts
}

func writeParts(t *testing.T, file string, parts map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, name := range sections {
		if name == "actions" && parts[name] == "" {
			continue
		}
		fmt.Fprintf(&b, "== %s\n%s", name, parts[name])
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// player drives a machine with a script.
type player struct {
	t       *testing.T
	def     *saga.Definition
	m       *machine.Machine
	now     time.Time
	records []journal.Record
	script  []string
	out     bytes.Buffer
	message int
	life    int            // of a session
	asked   map[string]int // how often this life has asked for each identity
}

func play(t *testing.T, parts map[string]string) *player {
	t.Helper()
	options := dsl.Options{Kinds: kinds.With(kinds.Options{LLM: models}), Actions: actionsOf(parts["actions"])}
	def, errs := dsl.Parse("scenario", []byte(parts["definition"]), options)
	if policy, ok := strings.CutPrefix(parts["definition"], "session: "); ok {
		var d saga.SessionData
		if err := json.Unmarshal([]byte(policy), &d); err != nil {
			t.Fatal(err)
		}
		def, errs = dsl.Session(&d, options)
	}
	if errs != nil {
		t.Fatalf("definition:\n%v", errs)
	}
	p := &player{t: t, def: def, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for line := range strings.Lines(parts["script"]) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			p.script = append(p.script, line)
		}
	}
	input := json.RawMessage(strings.TrimSpace(parts["input"]))
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: input, Vars: map[string]json.RawMessage{"pay": json.RawMessage(`"https://pay.example"`)}})
	if wrong != nil {
		t.Fatalf("start: %v", wrong)
	}
	p.m = machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))
	p.write(p.m.Start(data))
	for range 1000 {
		if !p.step() {
			break
		}
	}
	if len(p.script) > 0 {
		t.Fatalf("left of the script: %q\n%s", p.script, p.out.String())
	}
	v := p.m.View()
	fmt.Fprintf(&p.out, "status: %s\n", v.Status)
	for name, value := range map[string]any{"reason": v.Reason} {
		if v.Reason != nil {
			fmt.Fprintf(&p.out, "%s: %s\n", name, mustJSON(t, value))
		}
	}
	fmt.Fprintf(&p.out, "cost: %s\n", mustJSON(t, v.Cost))
	fmt.Fprintf(&p.out, "hash: %x\n", p.records[len(p.records)-1].Hash) // over every byte of every record
	return p
}

// actionsOf finds the actions of a scenario, which are separated by lines of dashes, each in any
// version.
func actionsOf(text string) func(string, int) (*saga.Action, error) {
	return func(name string, version int) (*saga.Action, error) {
		for doc := range strings.SplitSeq(text, "---\n") {
			a, errs := dsl.ParseAction("action", []byte(doc), dsl.Options{Kinds: kinds.All()})
			if errs != nil {
				return nil, errs
			}
			if a.Version = max(version, 1); a.Name == name {
				return a, nil
			}
		}
		return nil, fmt.Errorf("there is no action %s", name)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := journal.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (p *player) write(d machine.Draft) {
	p.t.Helper()
	r, err := p.m.Append(d, p.now, "node-1")
	if err != nil {
		p.t.Fatalf("%v\nso far:\n%s", err, p.out.String())
	}
	p.records = append(p.records, r)
	fmt.Fprintf(&p.out, "%2d %-8s %-12s %s", r.Seq, "+"+r.At.Sub(p.records[0].At).String(), r.Kind, r.Path)
	if r.Way != "" {
		fmt.Fprintf(&p.out, " %s", r.Way)
	}
	if r.Attempt > 0 {
		fmt.Fprintf(&p.out, " attempt=%d", r.Attempt)
	}
	if r.Generation > 0 {
		fmt.Fprintf(&p.out, " generation=%d", r.Generation)
	}
	if r.Key != "" {
		fmt.Fprintf(&p.out, " key=%s", r.Key)
	}
	if r.Class != "" {
		fmt.Fprintf(&p.out, " %s", r.Class)
	}
	data := string(r.Data)
	if i := strings.Index(data, `"request_hash"`); i > 0 {
		data = data[:i] + "…" // the hash is tested where it is made
	}
	fmt.Fprintf(&p.out, " %s\n", data)
}

// step does one thing, and reports whether there was one to do.
func (p *player) step() bool {
	var wake *machine.WakeAt
	for _, d := range p.m.Decide() {
		switch d := d.(type) {
		case machine.Write:
			p.write(d.Record)
			return true
		case machine.Dispatch:
			p.write(d.Intent)
			p.answer(d.Send)
			return true
		case machine.WakeAt:
			if wake == nil || d.At.Before(wake.At) {
				wake = &d
			}
		case machine.Escalate:
			fmt.Fprintf(&p.out, "   inbox    %s %s %s %s: %s\n", d.Entry.Kind, d.Entry.Path, d.Entry.Way, d.Entry.Actions, d.Entry.Title)
		}
	}
	if len(p.script) > 0 && strings.HasPrefix(p.script[0], "order:") {
		p.order(strings.TrimPrefix(p.script[0], "order:"))
		p.script = p.script[1:]
		return true
	}
	if rest, ok := strings.CutPrefix(strings.Join(p.script[:min(1, len(p.script))], ""), "pass "); ok {
		d, err := time.ParseDuration(rest)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now, p.script = p.now.Add(d), p.script[1:]
		return true
	}
	if len(p.script) > 0 && p.script[0] == "wait" && wake != nil {
		p.now, p.script = wake.At, p.script[1:]
		p.write(wake.Woke)
		return true
	}
	if len(p.script) > 0 && p.agent(p.script[0]) {
		p.script = p.script[1:]
		return true
	}
	if wake != nil {
		p.now = wake.At
		p.write(wake.Woke)
		return true
	}
	return false
}

// agent does what a line says that the agent of a session does, and reports whether it says so.
func (p *player) agent(line string) bool {
	p.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	var do saga.Operation
	var path string
	switch word {
	case "attach": // HOLDER SECRET [PREVIOUS]
		f := append(strings.Fields(rest), "", "")
		do = saga.Attach{Holder: f[0], Token: f[1], Previous: f[2]}
	case "lease", "detach": // of the session's last life
		how := map[string]string{"lease": string(journal.TaskExpired), "detach": saga.TaskCompleted}[word]
		p.now = p.now.Add(time.Second)
		if d, ok := p.m.EndLife(p.m.LeaseTask().Attempt, how, p.now); ok {
			p.write(d)
		}
		return true
	case "commit":
		do = saga.CommitSession{Life: p.life, Output: json.RawMessage(rest)}
	case "undo":
		do, path = saga.UndoCall{}, rest
	case "begin": // {"id": …}
		c := saga.BeginStep{Life: p.life}
		p.decode(rest, &c)
		do = c
	case "finish": // {"id": …, "attempt": …, "status": …}
		c := saga.FinishStep{Life: p.life}
		p.decode(rest, &c)
		do = c
	case "call", "late": // late: by the process of the life before
		action, input, _ := strings.Cut(rest, " ")
		c := saga.CallAction{Life: p.life, Action: action, Input: json.RawMessage(input)}
		if action, id, ok := strings.Cut(action, "#"); ok {
			c.Action, c.ID = action, id
		}
		if word == "late" {
			c.Life--
		}
		identity, why := p.m.Identity(&c)
		if why != nil {
			p.refused(why)
			return true
		}
		c.Before = p.asked[identity]
		if path, d, why := p.m.Call(uuid.Nil, c); why == nil {
			p.asked[identity]++
			if d == nil {
				fmt.Fprintf(&p.out, "   answered by %s\n", path)
				return true
			}
		}
		do = c
	default:
		return false
	}
	p.now = p.now.Add(time.Second)
	p.message++
	d, err := p.m.Validate(uuid.NewV5(p.m.ID(), strconv.Itoa(p.message)), saga.Command{Do: do, Path: path})
	if err != nil {
		p.refused(err)
		return true
	}
	if d.Kind == "" {
		fmt.Fprintf(&p.out, "   nothing changes\n")
		return true
	}
	p.write(d)
	if data, ok := d.Data.(saga.AttachedData); ok {
		p.life, p.asked = data.Life, make(map[string]int)
	}
	return true
}

func (p *player) decode(text string, into any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		p.t.Fatalf("%s: %v", text, err)
	}
}

func (p *player) refused(err error) { fmt.Fprintf(&p.out, "   refused  %v\n", err) }

func (p *player) order(text string) {
	p.t.Helper()
	for _, e := range p.m.Inbox() {
		if e.ShownHash != "" {
			text = strings.Replace(text, "$shown", e.ShownHash, 1)
		}
	}
	var c saga.Command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		p.t.Fatalf("order %s: %v", text, err)
	}
	p.message++
	p.now = p.now.Add(time.Second)
	id := uuid.NewV5(p.m.ID(), strconv.Itoa(p.message))
	r, err := p.m.Validate(id, c)
	if err != nil {
		fmt.Fprintf(&p.out, "   refused  %v\n", err)
		return
	}
	p.write(r)
}

func (p *player) answer(s machine.Send) {
	p.t.Helper()
	way := string(s.Way)
	path, query := strings.CutSuffix(s.Path, ".verify")
	if query {
		way = "query"
	}
	text := "200 {}"
	for i, line := range p.script {
		if rest, ok := strings.CutPrefix(line, path+" "+way+":"); ok {
			text = strings.TrimSpace(rest)
			p.script = append(p.script[:i:i], p.script[i+1:]...)
			break
		}
		if strings.HasPrefix(line, "order:") {
			break
		}
	}
	// A command between the request and its answer.
	for {
		rest, ok := strings.CutPrefix(text, "order ")
		if !ok {
			break
		}
		order, after, _ := strings.Cut(rest, " then ")
		p.order(order)
		text = after
	}
	a := parseAnswer(p.t, text)
	took := 100 * time.Millisecond
	if a.Code == "timeout" {
		took = s.Timeout
	}
	p.now = p.now.Add(took)
	r, err := p.m.RecordOutcome(s.Path, s.Way, s.Attempt, a, p.now, 1<<63)
	if err != nil {
		p.t.Fatalf("settle %s: %v", s.Path, err)
	}
	if again, err := p.m.RecordOutcome(s.Path, s.Way, s.Attempt, s.Read(a), p.now, 1<<63); err != nil || !reflect.DeepEqual(again, r) {
		p.t.Errorf("%s: the outcome of an answer that has been read is %+v, %v; want %+v", s.Path, again, err, r)
	}
	p.write(r)
}

func parseAnswer(t *testing.T, text string) saga.Answer {
	t.Helper()
	a := saga.Answer{Sent: true}
	word, body, _ := strings.Cut(text, " ")
	if rest, ok := strings.CutPrefix(body, "hint="); ok {
		var hint string
		hint, body, _ = strings.Cut(rest, " ")
		a.Hint = saga.Hint(hint)
	}
	if rest, ok := strings.CutPrefix(body, "after="); ok {
		var wait string
		wait, body, _ = strings.Cut(rest, " ")
		d, err := time.ParseDuration(wait)
		if err != nil {
			t.Fatal(err)
		}
		a.RetryAfter = d
	}
	switch word {
	case saga.CodeSecretMissing:
		a.Sent, a.Code, a.Detail = false, text, "the secret PAY_KEY cannot be had"
	case "refused":
		a.Sent, a.Code, a.Detail = false, "connection", "connection refused"
	case "timeout", "connection", "interrupted":
		a.Code, a.Detail = word, "no answer"
	case "cut":
		a.Status, a.Code, a.Detail = 200, "body_cut", "the body was cut"
	default:
		status, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("answer %q", text)
		}
		a.Status = status
		if body != "" {
			a.Body = json.RawMessage(body)
		}
	}
	return a
}

// prefixes checks that at every prefix of the journal a machine made at once
// decides what the incremental one did, and that the chain is whole.
func prefixes(t *testing.T, def *saga.Definition, id uuid.UUID, records []journal.Record) {
	t.Helper()
	if err := journal.Verify(id, nil, 1, records); err != nil {
		t.Error(err)
	}
	inc := machine.New(def, id)
	sends := cmpopts.IgnoreUnexported(machine.Send{}) // a pointer to the step, of which both have the same
	for i := range records {
		if err := inc.Apply(records[i]); err != nil {
			t.Fatalf("record %d: %v", i+1, err)
		}
		once, err := machine.Replay(def, id, records[:i+1])
		if err != nil {
			t.Fatalf("replay of %d: %v", i+1, err)
		}
		if d := cmp.Diff(once.Decide(), inc.Decide(), sends); d != "" {
			t.Errorf("decisions after %d records (-at once +one by one):\n%s", i+1, d)
		}
		// A decision that is carried out at once comes alone: what follows may depend on it.
		if at := slices.IndexFunc(inc.Decide(), acts); at >= 0 && slices.ContainsFunc(inc.Decide()[at+1:], acts) {
			t.Errorf("several records at once after %d records: %+v", i+1, inc.Decide())
		}
		// Asking again changes nothing.
		if d := cmp.Diff(inc.Decide(), inc.Decide(), sends); d != "" {
			t.Errorf("Decide is not read-only after %d records:\n%s", i+1, d)
		}
	}
}
