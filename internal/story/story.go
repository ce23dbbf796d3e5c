// Package story renders a journal for people: a line for each event, with the time since the start.
package story

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/history"
)

// Teller turns the records of one saga, passed in order, into lines. It never fails: a record that
// it cannot read becomes a line that says so.
type Teller struct {
	width  int
	reader history.Reader
	now    time.Time                // the time of the current record
	since  time.Duration            // and after the saga's start
	keys   map[history.Track]string // the last key sent
	spent  retry.Money
	money  string // the currency, if the definition has one
	life   int    // of a session
}

// New returns a teller. def may be nil: then names are not aligned and amounts have no currency.
func New(def *saga.Definition) *Teller {
	t := &Teller{width: 8, keys: make(map[history.Track]string)}
	if def != nil {
		t.money = def.Currency
		for id := range maps.Keys(def.ByID) {
			t.width = max(t.width, utf8.RuneCountInString(id))
		}
		if def.Session != nil {
			t.width += len("[0]")
		}
	}
	return t
}

// Width returns the width of the column of steps' names.
func (t *Teller) Width() int { return t.width }

// Tell returns the lines of the journal's next record, usually one.
func (t *Teller) Tell(r journal.Record) []Line {
	e := t.reader.Read(&r)
	t.now, t.since = e.At, e.Since
	var lines []Line
	if e.TakeOver {
		lines = append(lines, t.line("⚡", "", "another process takes over the saga from its journal", Strong))
	}
	return append(lines, t.tell(&e)...)
}

// Write writes the lines of a whole journal. Errors are w's.
func Write(w io.Writer, def *saga.Definition, records []journal.Record, colour bool) error {
	t := New(def)
	for _, r := range records {
		for _, l := range t.Tell(r) {
			if _, err := fmt.Fprintln(w, l.Format(t.width, colour)); err != nil {
				return fmt.Errorf("write story: %w", err)
			}
		}
	}
	return nil
}

func (t *Teller) line(mark, path, text string, tone Tone) Line {
	return Line{At: t.since, Mark: mark, Path: path, Text: text, Tone: tone}
}

func (t *Teller) one(mark, path, text string, tone Tone) []Line {
	return []Line{t.line(mark, path, text, tone)}
}

func (t *Teller) tell(e *history.Event) []Line {
	data, err := e.Data()
	if err != nil {
		return t.one("!", e.Path, fmt.Sprintf("record %d (%s) cannot be read: %v", e.Seq, e.Kind, err), Bad)
	}
	switch d := data.(type) {
	case *saga.StartedData:
		return t.started(d)
	case *saga.IntentData:
		return t.intent(e, d)
	case *saga.OutcomeData:
		return t.outcome(e, d)
	case *saga.DecidedData:
		return t.decided(e, d)
	case *saga.WokeData:
		return t.woke(e, d)
	case *saga.AttachedData:
		return t.attached(d)
	case *saga.CalledData:
		return t.called(e, d)
	case *saga.CommittedData:
		return t.one("✓", "", strings.TrimRight("the agent commits the session "+result(d.Output), " "), Good)
	case *saga.SignalData:
		return t.signalled(d)
	case *saga.CompensatingData:
		return t.compensating(d)
	case *saga.CommandData:
		return t.command(e, d)
	case *saga.FinishedData:
		return t.finished(d)
	}
	if e.Kind == journal.Skipped {
		return t.skipped(e)
	}
	return t.one("·", e.Path, "a record of kind "+string(e.Kind)+", which this program does not know", Dimmed)
}

func (t *Teller) skipped(e *history.Event) []Line {
	if e.Way == journal.Undo {
		return t.one("–", e.Path, "not undone: the compensation's `when` is false", Dimmed)
	}
	return t.one("–", e.Path, "skipped: its `when` is false", Dimmed)
}

func (t *Teller) started(d *saga.StartedData) []Line {
	text := fmt.Sprintf("%s v%d starts", d.Definition, d.Version)
	if s := d.Session; s != nil {
		text = "session " + s.Name + " starts, with the actions " + strings.Join(s.Actions, ", ")
	}
	if len(d.Input) > 0 && string(d.Input) != "null" {
		text += " with " + Short(string(d.Input), 90)
	}
	if d.Fork != nil {
		text += fmt.Sprintf(", a fork of %s after its record %d", d.Fork.Of, len(d.Origin))
	}
	if d.RetryOf != "" {
		text += ", a retry of " + d.RetryOf
	}
	if d.Actor != "" && d.Actor != "anonymous" {
		text += " by " + d.Actor
	}
	return t.one("●", "", text, Strong)
}

func (t *Teller) woke(e *history.Event, d *saga.WokeData) []Line {
	if line, ok := lifeEnds[d.Timer]; ok && e.Path == "" {
		return t.one(line.mark, "", line.text, line.tone)
	}
	if e.Path == "" {
		return t.one("✗", "", "the saga's timeout has passed", Bad)
	}
	what := map[string]string{"backoff": "the wait is over", "sleep": "wakes up", "verify": "time to check the remote service", saga.TimerHold: "the hold is over: tries again",
		saga.TimerFresh: "its answer is older than fresh_for: reads again",
		"approval":      "nobody has decided in time", "signal": "no signal has come in time"}[d.Timer]
	if what == "" {
		what = d.Timer + " is due"
	}
	return t.one("·", e.Track.Step, what, Dimmed)
}

func (t *Teller) finished(d *saga.FinishedData) []Line {
	lines := t.one("■", "", fmt.Sprintf("%s after %s", d.Status, span(t.since)), Good)
	last := &lines[0]
	if !t.spent.IsZero() {
		last.Text += ", cost " + t.amount(t.spent.Decimal())
	}
	if d.Status != saga.Succeeded {
		last.Tone = Back
		if d.Reason != nil {
			last.Text += ": " + d.Reason.Title
		}
	}
	if d.Status == saga.Failed {
		last.Tone = Bad
	}
	if len(d.Output) > 0 && string(d.Output) != "null" {
		last.Text += " → " + Short(string(d.Output), 120)
	}
	if d.OutputError != nil {
		lines = append(lines, t.line("!", "", "its output could not be computed: "+d.OutputError.Error(), Doubt))
	}
	for _, left := range d.Residual {
		lines = append(lines, t.line("!", left.Path, "remains: "+left.Why, Bad))
	}
	for _, doubt := range d.Doubts {
		lines = append(lines, t.line("!", doubt.Path, "stays in doubt: "+doubt.Why, Doubt))
	}
	return lines
}

func (t *Teller) amount(decimal string) string {
	if t.money == "" {
		return decimal
	}
	return decimal + " " + t.money
}

// span formats a duration roughly.
func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	if d < time.Minute {
		return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
	}
	return saga.Duration(d.Round(time.Second))
}

// Short cuts a text to so many characters and makes its control characters harmless.
func Short(s string, limit int) string {
	out := make([]rune, 0, limit)
	for _, c := range s {
		if len(out) == limit {
			out[limit-1] = '…'
			break
		}
		out = append(out, harmless(c))
	}
	return string(out)
}

// Harmless makes a text one line that a terminal only displays, because services and clients have
// written parts of it.
func Harmless(s string) string { return strings.Map(harmless, s) }

// harmless replaces control characters, including those of C1, by spaces.
func harmless(c rune) rune {
	if c < 0x20 || c >= 0x7f && c < 0xa0 {
		return ' '
	}
	return c
}
