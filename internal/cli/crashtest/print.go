package crashtest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"recourse/internal/cli"
	"recourse/internal/crashmatrix"
	"recourse/internal/story"
)

// columns are the columns of the table.
var columns = []cli.Column{{Head: "STEP", Least: 8}, {Head: "WAY"}, {Head: "FAULT", Least: 10}, {Head: "END"}, {Head: "EFFECTS", Extra: true}, {Head: "UNDONE", Extra: true}, {Head: "SENDS", Extra: true}, {Head: "VERDICT"}, {Head: "WHY", Least: 16},
	{Head: "INBOX", Least: 8, Extra: true}, {Head: "RESIDUAL", Least: 8, Extra: true}}

// cells returns a row of the table.
func cells(r crashmatrix.Row) []string {
	step, way, fault := r.Step, string(r.Way), string(r.Fault)
	if step == "" {
		step, way = "-", "-"
	}
	if t := r.Then; t != nil {
		fault += fmt.Sprintf(", then %s %s %s", t.Step, t.Way, t.Fault)
	}
	return []string{step, way, fault, string(r.End), fmt.Sprint(r.Effects), fmt.Sprint(r.Undone), fmt.Sprint(r.Sends), string(r.Verdict), dash(r.Why), dash(strings.Join(r.Inbox, ", ")), dash(strings.Join(r.Residual, ", "))}
}

// dash replaces an empty cell.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (c *Command) print(a *cli.App, m *crashmatrix.Matrix) error {
	switch c.Output {
	case "json", "yaml":
		return a.Encode(m)
	case "junit":
		return c.junit(a, m)
	}
	var rows [][]string
	hidden := 0
	for _, r := range m.Rows {
		if a.TTY && !c.All && r.Verdict == crashmatrix.OK && r.Step != "" {
			hidden++
			continue
		}
		rows = append(rows, cells(r))
	}
	a.Table(columns, rows)
	if hidden > 0 {
		a.Printf("%d more with the verdict ok: --all shows them\n", hidden)
	}
	a.Printf("%s\n", summary(m))
	for _, n := range m.Notes {
		a.Printf("Note: %s\n", story.Harmless(n))
	}
	return nil
}

// summary counts the verdicts.
func summary(m *crashmatrix.Matrix) string {
	var parts []string
	for _, v := range crashmatrix.Verdicts {
		if n := m.Counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return fmt.Sprintf("%s: %d sagas: %s", m.Definition, len(m.Rows), strings.Join(parts, ", "))
}

type (
	testSuite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
		Notes    string     `xml:"system-out,omitempty"`
	}
	testCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Failure *testFailure `xml:"failure,omitempty"`
		Out     string       `xml:"system-out,omitempty"`
	}
	testFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
	}
)

// junit prints the rows as a JUnit test suite: a faulty row is a failed test.
func (c *Command) junit(a *cli.App, m *crashmatrix.Matrix) error {
	suite := testSuite{Name: m.Definition, Tests: len(m.Rows), Notes: strings.Join(m.Notes, "\n")}
	for _, r := range m.Rows {
		cell := cells(r)
		one := testCase{Class: m.Definition + "." + cell[0], Name: strings.Join(cell[1:3], ": ")}
		text := strings.Join(cell[3:], " ")
		if r.Verdict.Faulty() {
			suite.Failures++
			one.Failure = &testFailure{Type: string(r.Verdict), Message: r.Why}
		}
		one.Out = text
		suite.Cases = append(suite.Cases, one)
	}
	doc, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	a.Printf("%s%s\n", xml.Header, doc)
	return nil
}

// golden returns the table as a golden file has it.
func golden(m *crashmatrix.Matrix) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for _, r := range m.Rows {
		fmt.Fprintln(w, strings.Join(cells(r), "\t"))
	}
	_ = w.Flush() // into memory
	for _, n := range m.Notes {
		fmt.Fprintf(&b, "Note: %s\n", n)
	}
	return b.Bytes()
}

// compare compares the table with the golden file, or rewrites the file.
func (c *Command) compare(a *cli.App, m *crashmatrix.Matrix) error {
	if c.Golden == "" {
		return nil
	}
	got := golden(m)
	if c.Update {
		if err := os.WriteFile(c.Golden, got, 0o644); err != nil {
			return fmt.Errorf("--golden: %w", err)
		}
		a.Note("%s is rewritten", c.Golden)
		return nil
	}
	want, err := os.ReadFile(c.Golden)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Exit(cli.Usage, fmt.Errorf("--golden: there is no file %s: write it with --update", c.Golden))
	} else if err != nil {
		return fmt.Errorf("--golden: %w", err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	for _, line := range changed(words(want), words(got)) {
		a.Note("%s", line)
	}
	return cli.Exit(cli.Failed, fmt.Errorf("the table differs from %s: see whether that is intended, then rewrite it with --update", c.Golden))
}

// words splits a table into lines with single spaces, because a new row may widen every column.
func words(table []byte) (lines []string) {
	for line := range strings.Lines(string(table)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// maxChanged limits the printed differences.
const maxChanged = 40

// changed lists the lines that only one of two tables has.
func changed(want, got []string) (lines []string) {
	count := make(map[string]int)
	for _, line := range want {
		count[line]++
	}
	for _, line := range got {
		count[line]--
	}
	for _, side := range []struct {
		sign string
		of   []string
		by   int
	}{{"- ", want, 1}, {"+ ", got, -1}} {
		for _, line := range side.of {
			if count[line]*side.by > 0 {
				count[line] -= side.by
				lines = append(lines, side.sign+line)
			}
		}
	}
	if len(lines) > maxChanged {
		lines = append(lines[:maxChanged], fmt.Sprintf("… and %d more", len(lines)-maxChanged))
	}
	return lines
}
