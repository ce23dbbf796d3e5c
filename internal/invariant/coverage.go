package invariant

import (
	"fmt"
	"maps"
	"slices"
)

// Coverage says how far an invariant was checked.
type Coverage struct {
	N       int
	Checked bool
	Why     string // why it was not checked, or only in part. "": it was checked completely
}

// need is an input of a rule.
type need struct {
	text string
	met  func(*Checker) bool
}

var (
	definition = need{"the definitions", func(c *Checker) bool { return c.undefined < c.sagas || c.sagas == 0 }}
	requests   = need{"the remote service's ledger", func(c *Checker) bool { return c.ledger != nil }}
	effects    = need{"a ledger that records effects", func(c *Checker) bool { return c.ledger != nil && !c.ledger.RequestsOnly }}
	complete   = need{"a ledger without other clients' writes", func(c *Checker) bool { return c.ledger != nil && c.ledger.Complete }}
	rows       = need{"the database's rows", func(c *Checker) bool { return c.rows > 0 || !c.cfg.Clock.IsZero() }}
	starts     = need{"the acknowledged starts", func(c *Checker) bool { return c.cfg.Starts != nil }}
	canaries   = need{"the secrets to search for", func(c *Checker) bool { return len(c.canaries) > 0 }}
	anchored   = need{"signed anchors", func(c *Checker) bool { return c.cfg.Anchored }}
	oneProgram = need{"the knowledge that all nodes ran this program", func(c *Checker) bool { return c.cfg.OneProgram }}
)

// needs has the inputs of each rule: without must, a rule checks nothing; without also, it checks
// less.
var needs = map[int]struct{ must, also []need }{
	1:  {must: []need{starts}},
	2:  {also: []need{definition}},
	3:  {},
	4:  {must: []need{requests}, also: []need{complete}},
	5:  {also: []need{definition}},
	6:  {must: []need{definition}, also: []need{effects}},
	7:  {must: []need{definition, effects}},
	8:  {must: []need{definition, effects}},
	9:  {also: []need{definition, effects}},
	10: {must: []need{definition}},
	11: {also: []need{definition, effects, rows}},
	12: {must: []need{definition, rows}},
	13: {also: []need{definition}},
	14: {must: []need{definition}},
	15: {also: []need{definition}},
	16: {also: []need{definition}},
	17: {},
	19: {must: []need{canaries}},
	22: {must: []need{oneProgram, definition}},
	23: {must: []need{definition}, also: []need{effects}},
	24: {},
	25: {},
	26: {must: []need{definition}},
	28: {also: []need{definition}},
	30: {must: []need{anchored}},
	31: {also: []need{definition, effects}},
	32: {also: []need{definition}},
	33: {must: []need{definition}},
	34: {also: []need{definition, effects}},
	35: {also: []need{definition}},
}

// Coverage says for each invariant, by number, how far it was checked with the given inputs.
func (c *Checker) Coverage() []Coverage {
	var list []Coverage
	for _, n := range slices.Sorted(maps.Keys(Names)) {
		v := Coverage{N: n, Checked: true}
		if lacks := c.lacks(needs[n].must); lacks != "" {
			v.Checked, v.Why = false, "needs "+lacks
		} else if lacks := c.lacks(needs[n].also); lacks != "" {
			v.Why = "in part: the rest needs " + lacks
		} else if c.undefined > 0 && slices.ContainsFunc(slices.Concat(needs[n].must, needs[n].also), func(d need) bool { return d.text == definition.text }) {
			v.Why = fmt.Sprintf("without the %d sagas whose definitions are missing", c.undefined)
		}
		list = append(list, v)
	}
	return list
}

func (c *Checker) lacks(list []need) string {
	text := ""
	for _, n := range list {
		if n.met(c) {
			continue
		}
		if text != "" {
			text += ", and "
		}
		text += n.text
	}
	return text
}

// Totals count the checked input.
type Totals struct {
	Sagas     int
	Undefined int // of them without a definition
	Live      int // of them that have not ended
	Records   int
	Requests  int // writes in the ledger
	Foreign   int // of them under keys of no saga; known after End
	Later     int // sagas that continued after the ledger was written, whose effects were not compared
}

// Totals returns the counts.
func (c *Checker) Totals() Totals {
	t := Totals{Sagas: c.sagas, Undefined: c.undefined, Live: c.live, Records: c.records, Foreign: c.foreign, Later: c.later}
	if c.ledger != nil {
		for _, e := range c.ledger.Entries.Requests() {
			if effectful(e.Method) {
				t.Requests++
			}
		}
	}
	return t
}
