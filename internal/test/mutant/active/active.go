// Package active says which deliberate bug is switched on. The code that package mutant generates
// imports it; nothing else in the product does.
package active

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Name is the bug that is switched on, "" for none. It must not change while other goroutines run.
var Name = os.Getenv("RECOURSE_MUTANT")

// init ends a program that would otherwise test the product without the bug that was asked for.
func init() {
	if Name == "" || slices.ContainsFunc(Bugs, func(b Bug) bool { return b.Name == Name }) {
		return
	}
	fmt.Fprintf(os.Stderr, "RECOURSE_MUTANT=%s: this program was built without this bug: see the files in internal/test/mutant/patches, and build with -overlay\n", Name)
	os.Exit(2)
}

// A Bug is a deliberate bug, and the check that must detect it.
type Bug struct {
	Name      string
	Invariant int    // its number in docs/reliability.md; 0: a check that only the simulator makes
	Text      string // part of what the check says
}

// Caused reports whether a violation is one by which the bug must be detected.
func (b Bug) Caused(violation string) bool {
	number := strconv.Itoa(b.Invariant) + ": "
	return strings.Contains(violation, b.Text) &&
		(b.Invariant == 0 || strings.HasPrefix(violation, number) || strings.Contains(violation, ": "+number))
}
