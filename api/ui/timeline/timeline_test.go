package timeline

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"recourse/api/ui/format"
	"recourse/internal/story/storytest"
	"recourse/internal/test/golden"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const drawn = `
saga: drawn
budget: 5.00 EUR
defaults: {retry: {attempts: 3, initial: 1s, jitter: 0}}
steps:
  - id: flight
    http: POST https://air.example/bookings
    cost: 0.02 EUR
    compensate: {http: "DELETE https://air.example/bookings/${output.id}"}
  - id: pause
    sleep: 2h
  - id: both
    parallel:
      - {id: left, http: POST https://pay.example/left}
      - {id: right, http: GET https://pay.example/right}
  - id: pages
    foreach: ${input.pages}
    steps:
      - id: fetch
        http: GET https://web.example/${item}
      - id: parse
        set: 1
  - id: ok
    approval: {title: "Go on?"}
  - id: charge
    http: POST https://pay.example/charges
    in_doubt: ask
    compensate: {http: "DELETE https://pay.example/charges?key=${key}"}
`

// scripted returns the responses to each step's attempts in turn; the default is success.
func scripted(by map[string][]saga.Answer) func(machine.Send, time.Time) saga.Answer {
	seen := map[string]int{}
	return func(s machine.Send, _ time.Time) saga.Answer {
		name := string(s.Way) + " " + s.Path
		n := seen[name]
		seen[name]++
		if list := by[name]; n < len(list) {
			return list[n]
		}
		return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{"id":"x_1"}`)}
	}
}

// link links to the row of the first step, and searches for the others.
func link(path string) string {
	if path == "flight" {
		return "#step-flight"
	}
	return "/sagas/s?step=" + url.QueryEscape(path) + "#step-" + url.PathEscape(path)
}

func approving(e saga.Entry) saga.Command {
	if e.Kind == saga.InboxApproval {
		return saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: e.Path, Actor: "ada", Trusted: true}
	}
	return saga.Command{Do: saga.Resolve{Outcome: "failed"}, Path: e.Path, Actor: "ada", Reason: "not there"}
}

func TestTimelines(t *testing.T) {
	tests := []struct {
		name   string
		script storytest.Script
	}{
		{"succeeded", storytest.Script{Input: `{"pages":["a","b"]}`, Person: approving, Answer: scripted(nil)}},
		{"undone", storytest.Script{Input: `{"pages":["<b>"]}`, Person: approving, Answer: scripted(map[string][]saga.Answer{
			"do flight":   {{Sent: true, Status: 503}, {Sent: false, Code: "connection", Detail: "refused <script>"}},
			"do left":     {saga.InterruptedAnswer()},
			"do charge":   {{Sent: true, Code: "timeout", Detail: "no response in time"}},
			"undo flight": {{Sent: false, Code: "dns"}},
		})}},
		{"in-doubt", storytest.Script{Input: `{"pages":[]}`, Person: nil, Answer: scripted(nil)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := storytest.Play(t, drawn, tt.script)
			steps, err := machine.Steps(p.Machine, p.Records)
			if err != nil {
				t.Fatal(err)
			}
			last := p.Records[len(p.Records)-1].At
			c := chartOf(p.Records, NestingOf(p.Def, steps), last.Add(time.Hour), p.Machine.Status().Terminal())
			svg := c.draw(link)
			wellFormed(t, svg)
			golden.Check(t, tt.name+".svg", strings.ReplaceAll(string(svg), "><", ">\n<"))
		})
	}
}

// wellFormed fails unless a picture is well-formed XML without injected elements.
func wellFormed(t *testing.T, svg template.HTML) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "script" || e.Name.Local == "b") {
			t.Fatalf("<%s> in\n%s", e.Name.Local, svg)
		}
	}
}

// manySteps returns a journal of n steps that succeed; every hundredth is in doubt first.
func manySteps(n int) []journal.Record {
	at := storytest.Begin
	list := []journal.Record{{Seq: 1, At: at, Kind: journal.Started, Node: "n", Data: json.RawMessage(`{"definition":"many","version":"v1"}`)}}
	add := func(r journal.Record) {
		at = at.Add(3 * time.Millisecond)
		r.Seq, r.At, r.Node, r.Way = int64(len(list)+1), at, "n", journal.Do
		list = append(list, r)
	}
	big := strings.Repeat("x", 500)
	for i := range n {
		step := fmt.Sprintf("pages[%d].fetch", i)
		add(journal.Record{Kind: journal.Intent, Path: step, Attempt: 1, Data: json.RawMessage(`{"request":{"method":"GET","url":"https://a.example/` + big + `"}}`)})
		if i%100 == 0 {
			add(journal.Record{Kind: journal.Outcome, Path: step, Attempt: 1, Class: journal.InDoubt, Data: json.RawMessage(`{"error":{"code":"timeout","title":"no answer"},"next":"retry"}`)})
			add(journal.Record{Kind: journal.Intent, Path: step, Attempt: 2, Data: json.RawMessage(`{}`)})
			add(journal.Record{Kind: journal.Outcome, Path: step, Attempt: 2, Class: journal.Succeeded, Data: json.RawMessage(`{"output":1}`)})
			continue
		}
		add(journal.Record{Kind: journal.Outcome, Path: step, Attempt: 1, Class: journal.Succeeded, Data: json.RawMessage(`{"output":"` + big + `"}`)})
	}
	return list
}

// The picture of a long journal stays readable: it shows failures, and folds the rest.
func TestTimelineOfMany(t *testing.T) {
	for _, tt := range []struct{ steps, lanes, doubts int }{{3, 3, 1}, {36, 36, 1}, {60, fewLanes, 1}, {300, fewLanes, 3}, {10_000, maxLanes, maxLanes / 2}} {
		n := tt.steps
		c := chartOf(manySteps(n), NestingOf(nil, nil), storytest.Begin.Add(time.Hour), false)
		lanes, folded, doubts := 0, 0, 0
		for _, l := range c.do {
			if l.folded > 0 {
				folded += l.folded
				continue
			}
			lanes++
			if !l.calm {
				doubts++
			}
		}
		if lanes != tt.lanes || lanes+folded != n || doubts < tt.doubts {
			t.Errorf("%d steps: %d lanes, %d folded, %d of doubt; want %d lanes, %d of doubt", n, lanes, folded, doubts, tt.lanes, tt.doubts)
		}
		svg := c.draw(link)
		wellFormed(t, svg)
		if len(svg) > 120_000 {
			t.Errorf("%d steps: a picture of %d bytes", n, len(svg))
		}
	}
}

func BenchmarkTimeline(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		records := manySteps(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				chartOf(records, NestingOf(nil, nil), storytest.Begin.Add(time.Hour), false).draw(link)
			}
		})
	}
}

// Long waits are shortened and marked; attempts in flight extend to the present.
func TestTimelineCuts(t *testing.T) {
	at := storytest.Begin
	records := []journal.Record{
		{Seq: 1, At: at, Kind: journal.Started, Node: "a"},
		{Seq: 2, At: at, Kind: journal.Intent, Path: "one", Way: journal.Do, Attempt: 1, Node: "a", Data: json.RawMessage(`{}`)},
		{Seq: 3, At: at.Add(time.Second), Kind: journal.Outcome, Path: "one", Way: journal.Do, Attempt: 1, Class: journal.Transient, Node: "a", Data: json.RawMessage(`{"next":"retry","retry_at":"2026-11-22T10:00:00.000Z"}`)},
		{Seq: 4, At: at.Add(24 * time.Hour), Kind: journal.Intent, Path: "one", Way: journal.Do, Attempt: 2, Node: "b", Data: json.RawMessage(`{}`)},
	}
	c := chartOf(records, NestingOf(nil, nil), at.Add(24*time.Hour+2*time.Second), false)
	svg := string(c.draw(link))
	for _, want := range []string{"1 d", "drawn shorter", "taken over", "for 2 s so far", "t-open", "waits until 2026-11-22 10:00:00.000 UTC"} {
		if want == "1 d" {
			want = format.Took(24*time.Hour - time.Second)
		}
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	begin, later := c.axisX(at.Add(time.Second)), c.axisX(at.Add(24*time.Hour))
	if later-begin > (right-labels)/3 {
		t.Errorf("the wait is %d wide", later-begin)
	}
}

// An abandoned wait ends where the saga was cancelled, however long undoing takes.
func TestTimelineOfACancel(t *testing.T) {
	p := storytest.Play(t, drawn, storytest.Script{Input: `{"pages":[]}`, Commands: map[int64]saga.Command{4: {Do: saga.Cancel{}, Actor: "ada", Reason: "enough"}},
		Answer: scripted(map[string][]saga.Answer{"undo flight": {{Sent: false, Code: "dns"}, {Sent: false, Code: "dns"}}})})
	steps, err := machine.Steps(p.Machine, p.Records)
	if err != nil {
		t.Fatal(err)
	}
	c := chartOf(p.Records, NestingOf(p.Def, steps), p.Records[len(p.Records)-1].At, true)
	cancelled := time.Time{}
	for _, r := range p.Records {
		if r.Kind == journal.Cancelled {
			cancelled = r.At
		}
	}
	lanes, slept := 0, 0
	for _, l := range c.do {
		if l.path != "pause" {
			continue
		}
		lanes++
		if b := l.bars[len(l.bars)-1]; b.open || !b.to.Equal(cancelled) || !c.end.After(cancelled) {
			t.Errorf("the sleep is drawn from %s to %s, open: %v; the saga was cancelled at %s, and ended at %s", b.from, b.to, b.open, cancelled, c.end)
		}
	}
	for _, s := range steps {
		if s.Path != "pause" {
			continue
		}
		slept++
		if s.Status != machine.StepSkipped {
			t.Errorf("the step that slept is %s", s.Status)
		}
	}
	if lanes != 1 || slept != 1 {
		t.Errorf("the sleep has %d lanes and is %d steps, want one of each", lanes, slept)
	}
	if p.Machine.Status() != saga.Compensated || cancelled.IsZero() {
		t.Errorf("the saga is %s, cancelled at %s", p.Machine.Status(), cancelled)
	}
}

func (c *chart) axisX(at time.Time) int { return axisOf(c).x(at) }

// Labels of moments that are close together do not overlap.
func TestTimelineWords(t *testing.T) {
	at := storytest.Begin
	c := &chart{begin: at, end: at.Add(time.Second), do: []*lane{{path: "a"}}}
	for _, ms := range []int{0, 5, 10, 400, 402, 998, 1000} {
		c.moments = append(c.moments, moment{at.Add(time.Duration(ms) * time.Millisecond), "taken over", true})
	}
	line := &picture{chart: c, axis: axisOf(c)}
	words := line.words()
	const wide = 7 * len("taken over")
	from := func(w word) int {
		if w.left {
			return w.x - wide
		}
		return w.x
	}
	for i, w := range words {
		for _, other := range words[:i] {
			if w.row == other.row && from(w) < from(other)+wide && from(other) < from(w)+wide {
				t.Errorf("%d and %d lie over each other in row %d", other.x, w.x, w.row)
			}
		}
	}
	if len(words) < 5 {
		t.Errorf("%d words of %d moments are left", len(words), len(c.moments))
	}
}

// The timeline of a session shows the lives of its agent, each call in a lane of its own,
// and its requests to models in one.
func TestTimelineOfASession(t *testing.T) {
	call := func(life int, city string) saga.Command {
		return saga.Command{Do: saga.CallAction{Life: life, Action: "book", Input: json.RawMessage(`{"to":"` + city + `"}`)}}
	}
	p := storytest.PlayDefinition(t, storytest.ParseSession(t, "action: book\nagents: auto\nhttp: POST https://air.example/bookings\n"), storytest.Script{
		Answer: scripted(nil),
		Commands: map[int64]saga.Command{
			1:  {Do: saga.Attach{Token: "aa"}},
			2:  call(1, "OSL"),
			5:  {Do: saga.EndTask{Attempt: 1, Result: saga.TaskResult{Outcome: string(journal.TaskExpired)}}},
			6:  {Do: saga.Attach{Token: "bb"}},
			7:  call(2, "BGO"),
			10: {Do: saga.AskModel{Life: 2, Identity: "a", Input: json.RawMessage(`{"route":"openai/chat/completions","model":"m"}`)}},
			13: {Do: saga.AskModel{Life: 2, Identity: "b", Input: json.RawMessage(`{"route":"openai/chat/completions","model":"m"}`)}},
			16: {Do: saga.CommitSession{Life: 2}},
		},
	})
	steps, err := machine.Steps(p.Machine, p.Records)
	if err != nil {
		t.Fatal(err)
	}
	c := chartOf(p.Records, NestingOf(p.Def, steps), p.Records[len(p.Records)-1].At, true)
	var got []string
	for _, m := range c.moments {
		got = append(got, m.word)
	}
	for _, l := range c.do {
		got = append(got, fmt.Sprint(l.path, " ", len(l.bars)))
	}
	if want := "life 1, lease lost, life 2, commit, llm 2, book[0] 1, book[1] 1"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	svg := c.draw(link)
	if wellFormed(t, svg); !strings.Contains(string(svg), ">models<") {
		t.Errorf("the requests to models have no lane:\n%s", svg)
	}
}
