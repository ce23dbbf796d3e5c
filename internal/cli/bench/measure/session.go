package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Session is the beginning of every report.
type Session struct {
	Workload string `json:"workload"`
	Store    string `json:"store"`
	Machine  string `json:"machine"`
	Rounds   int    `json:"rounds"`
	Verified int    `json:"newest_verified,omitempty"` // how many sagas were checked at the end; 0: all
}

// Ran notes the machine and the store, and how many sagas were checked at the end; 0: all.
func (s *Session) Ran(store, machine string, verified int) {
	s.Store, s.Machine, s.Verified = store, machine, verified
}

// head writes the first line of a report for people.
func (s *Session) head(w io.Writer, what string) {
	fmt.Fprintf(w, "%s on %s, %s; %s", s.Workload, s.Store, s.Machine, what)
	if s.Verified > 0 {
		fmt.Fprintf(w, "; the newest %d journals and rows were checked", s.Verified)
	}
	fmt.Fprint(w, "\n\n")
}

// table writes rows below a header, with numbers to the right.
func table(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}

// Engine starts and stops the measured server.
type Engine interface {
	// Start starts it and returns when it listens.
	Start() (Process, error)
	// Kill stops it as a crash does.
	Kill()
}

// Progress is called with the progress of a session.
type Progress func(done, of int, what string)
