package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/evidence"
	"recourse/internal/invariant"
	"recourse/internal/story"
)

// Verdict is the output of verify with -o json.
type Verdict struct {
	OK         bool `json:"ok"` // there is no violation
	Sagas      int  `json:"sagas"`
	Records    int  `json:"records"`
	Live       int  `json:"live"`       // sagas that have not ended
	Replayed   int  `json:"replayed"`   // sagas whose definition was available
	Requests   int  `json:"requests"`   // writes in the ledger
	Foreign    int  `json:"foreign"`    // those of none of the sagas
	Later      int  `json:"later"`      // sagas that changed after the ledger was written
	Moving     int  `json:"moving"`     // sagas that changed while they were read
	Archived   int  `json:"archived"`   // sagas of the archive, also those that are still in the database
	Unfinished int  `json:"unfinished"` // of them, those that are only in objects whose archiver did not finish
	// Anchors says how much was compared with --anchors.
	Anchors    *evidence.Count `json:"anchors,omitempty"`
	Violations []violation     `json:"violations"`
	Checked    []checkedRow    `json:"checked"`
	NotChecked []checkedRow    `json:"not_checked"`
	Missing    []*missing      `json:"missing_definitions"`
}

type violation struct {
	Saga      string `json:"saga,omitempty"`
	Seq       int64  `json:"seq,omitempty"`
	Invariant int    `json:"invariant"`
	Text      string `json:"text"`
}

// checkedRow is an invariant that was checked, was checked in part (Why says which part is
// missing), or was not checked.
type checkedRow struct {
	Invariant int    `json:"invariant"`
	Text      string `json:"text"`
	Why       string `json:"why,omitempty"`
}

// report prints the findings and the checks, and fails if there is a violation.
func (v *check) report() error {
	r := v.result()
	if v.cmd.Machine() {
		if err := v.app.Encode(r); err != nil {
			return err
		}
	} else {
		v.text(r)
	}
	switch {
	case len(r.Violations) > 0:
		return cli.Exit(cli.Failed, fmt.Errorf("%s", cli.Count(len(r.Violations), "violation")))
	case len(r.Missing) > 0 && v.cmd.Database == "" && len(v.defs) > 0:
		m := r.Missing[0]
		return cli.Exit(cli.Usage, fmt.Errorf("--definitions lacks the saga's definition: %s", m))
	}
	return nil
}

func (v *check) result() Verdict {
	r := Verdict{Violations: []violation{}, Checked: []checkedRow{}, NotChecked: []checkedRow{}, Missing: []*missing{}, Moving: v.moving}
	for _, f := range v.checker.End() {
		one := violation{Seq: f.Seq, Invariant: f.N, Text: f.Text}
		if !f.Saga.IsNil() {
			one.Saga = f.Saga.String()
		}
		r.Violations = append(r.Violations, one)
	}
	slices.SortStableFunc(r.Violations, func(a, b violation) int { return strings.Compare(a.Saga, b.Saga) })
	t := v.checker.Totals()
	r.OK = len(r.Violations) == 0
	r.Sagas, r.Live, r.Records, r.Replayed = t.Sagas, t.Live, t.Records, t.Sagas-t.Undefined
	r.Requests, r.Foreign, r.Later = t.Requests, t.Foreign, t.Later
	r.Archived, r.Unfinished = v.archived, v.unfinished
	if v.anchors != nil {
		n := v.anchors.Count()
		r.Anchors = &n
	}
	for _, c := range v.checker.Coverage() {
		row := checkedRow{Invariant: c.N, Text: invariant.Names[c.N], Why: flagged.Replace(c.Why)}
		if c.Checked {
			r.Checked = append(r.Checked, row)
		} else {
			r.NotChecked = append(r.NotChecked, row)
		}
	}
	for _, sum := range slices.Sorted(maps.Keys(v.missing)) {
		r.Missing = append(r.Missing, v.missing[sum])
	}
	return r
}

// flagged adds the flag that provides the missing input of a check.
var flagged = strings.NewReplacer(
	"the definitions", "the definitions (--definitions)",
	"the remote service's ledger", "the remote service's ledger (--ledger)",
	"a ledger that records effects", "a ledger that records effects (--ledger)",
	"the database's rows", "the database's rows (--database)",
	"the acknowledged starts", "the acknowledged starts (--starts)",
	"a ledger without other clients' writes", "a ledger without other clients' writes (--complete)",
	"signed anchors", "signed anchors (--anchors)",
	"the secrets to search for", "the secrets to search for (--canaries)",
)

func (v *check) text(r Verdict) {
	a := v.app
	for _, f := range r.Violations {
		a.Printf("%s\n", story.Paint(story.Harmless(f.String()), story.Bad, a.Colour))
	}
	if len(r.Violations) > 0 {
		a.Printf("\n")
	}
	a.Printf("%s, %s", cli.Count(r.Sagas, "saga"), cli.Count(r.Records, "record"))
	if v.cmd.Ledger != "" {
		a.Printf(", %s in the ledger", cli.Count(r.Requests, "write"))
	}
	if v.cmd.Archive != "" {
		a.Printf(", %s in the archive", cli.Count(r.Archived, "saga"))
	}
	if r.OK && r.Sagas == 0 {
		a.Printf(": %s\n", story.Paint("nothing was checked", story.Doubt, a.Colour))
	} else if r.OK {
		a.Printf(": %s\n", story.Paint("no violations", story.Good, a.Colour))
	} else {
		a.Printf(": %s\n", story.Paint(cli.Count(len(r.Violations), "violation"), story.Bad, a.Colour))
	}
	rows(a, "Checked:", r.Checked)
	rows(a, "Not checked:", r.NotChecked)
	v.notes(r)
}

func rows(a *cli.App, title string, list []checkedRow) {
	if len(list) == 0 {
		return
	}
	a.Printf("%s\n", title)
	for _, c := range list {
		a.Printf("  %2d  %s", c.Invariant, c.Text)
		if c.Why != "" {
			a.Printf(" – %s", c.Why)
		}
		a.Printf("\n")
	}
}

// notes prints what was not checked, and how to check it.
func (v *check) notes(r Verdict) {
	a := v.app
	for _, m := range r.Missing {
		why := m.Why
		if why == "" {
			why = "give it with --definitions"
		}
		a.Printf("Without its definition: %s of %s: %s\n", cli.Count(m.Sagas, "saga"), story.Harmless(m.String()), story.Harmless(why))
	}
	if r.Live > 0 && v.cmd.Database == "" {
		a.Printf("Not ended, as far as the journals go: %s. Records cut off at the end of a journal are not noticed.\n", cli.Count(r.Live, "saga"))
	}
	if r.Foreign > 0 {
		a.Printf("%s in the ledger came from none of these sagas. If that is an error, use --complete.\n", cli.Count(r.Foreign, "write"))
	}
	if r.Unfinished > 0 && v.rows == nil {
		a.Printf("%s in objects of an archiver that did not finish: they must still be in the database. Check both with --database.\n", cli.Count(r.Unfinished, "saga"))
	}
	if r.Later > 0 {
		a.Printf("%s changed after the ledger was written: their effects were not compared.\n", cli.Count(r.Later, "saga"))
	}
	v.anchorNotes()
	if r.Moving > 0 {
		a.Printf("%s changed while being read, twice: journal checked, row not compared.\n", cli.Count(r.Moving, "saga"))
	}
}

// String names the definition.
func (m *missing) String() string {
	return fmt.Sprintf("%s %s with SHA-256 %s", m.Definition, m.Version, m.SHA256)
}

// String formats the violation in one line: saga, seq, invariant, and the error.
func (f violation) String() string {
	saga, seq := f.Saga, ""
	if saga == "" {
		saga = "-"
	}
	if f.Seq > 0 {
		seq = fmt.Sprintf(" record %d", f.Seq)
	}
	return fmt.Sprintf("%s%s invariant %d: %s", saga, seq, f.Invariant, f.Text)
}
