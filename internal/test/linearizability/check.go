package linearizability

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Violation is a part of a history that could not have happened.
type Violation struct {
	What string
	Ops  []Op // the operations concerned, in the order of their calls

	model porcupine.Model
	info  porcupine.LinearizationInfo // when no order explains the operations
	drawn bool
}

// String returns the violation with its history.
func (v Violation) String() string {
	var b strings.Builder
	b.WriteString(v.What)
	for _, o := range v.Ops {
		b.WriteString("\n\t" + o.String())
	}
	return b.String()
}

// Draw writes porcupine's picture of a history that no order explains, and
// reports whether there is one.
func (v Violation) Draw(path string) (bool, error) {
	if !v.drawn {
		return false, nil
	}
	return true, porcupine.VisualizePath(v.model, v.info, path)
}

// patience bounds the time for the history of one saga.
const patience = time.Minute

// Check compares a history with the truth and returns the violations.
func Check(ops []Op, truth *Truth) []Violation {
	c := &checker{truth: truth, ops: slices.Clone(ops), byID: map[string]*Saga{}, byKey: map[string]*Saga{}, byMark: map[string]*Saga{}, asked: map[string]int{},
		history: map[*Saga][]porcupine.Operation{}, about: map[*Saga][]Op{}}
	slices.SortStableFunc(c.ops, func(a, b Op) int { return int(a.Call - b.Call) })
	c.index()
	for _, o := range c.ops {
		switch o.Do {
		case Start:
			c.start(o)
		case Get:
			c.get(o)
		case Journal:
			c.journal(o)
		case Command:
			c.command(o)
		}
	}
	c.origins()
	for _, s := range truth.Sagas {
		c.linearize(lengths, c.history[s], "no order explains what was said of saga "+s.ID(), c.about[s])
	}
	c.keys()
	return c.found
}

type checker struct {
	truth  *Truth
	ops    []Op
	byID   map[string]*Saga
	byKey  map[string]*Saga // of starts, without the scope
	byMark map[string]*Saga // retries of sagas that had ended, by the mark of their command
	asked  map[string]int   // how often each command was sent, by its mark

	history map[*Saga][]porcupine.Operation
	about   map[*Saga][]Op
	found   []Violation
}

func (c *checker) index() {
	for _, s := range c.truth.Sagas {
		c.byID[s.ID()] = s
		if _, key, ok := strings.Cut(s.Head.Key, ":"); ok {
			if other := c.byKey[key]; other != nil {
				c.fail(fmt.Sprintf("sagas %s and %s have the same key", other.ID(), s.ID()))
			}
			c.byKey[key] = s
		}
		if s.Started.RetryOf != "" {
			c.byMark[s.Started.Reason] = s
		}
	}
	for _, o := range c.ops {
		if o.Do == Command {
			c.asked[o.Command.Reason]++
		}
	}
}

func (c *checker) fail(what string, ops ...Op) {
	c.found = append(c.found, Violation{What: what, Ops: ops})
}

// says adds an event of a saga.
func (c *checker) says(s *Saga, o Op, e event) {
	back := int64(o.Return)
	if o.Answer.unknown() {
		back = math.MaxInt64
	}
	e.described = strings.Join(strings.Fields(o.String()), " ")
	c.history[s] = append(c.history[s], porcupine.Operation{ClientId: o.Client, Input: e, Call: int64(o.Call), Return: back})
	if list := c.about[s]; len(list) == 0 || list[len(list)-1].String() != o.String() {
		c.about[s] = append(list, o)
	}
}

// reads adds a read of a saga, and checks its content.
func (c *checker) reads(s *Saga, o Op, seq int64, body string) {
	if why := s.shows(seq, body); why != "" {
		c.fail(fmt.Sprintf("saga %s: %s", s.ID(), why), o)
		return
	}
	c.says(s, o, event{at: exactly(seq)})
}

func (c *checker) start(o Op) {
	s := c.byKey[o.Key]
	if o.Key == "" || s == nil {
		s = c.byID[o.Answer.Saga]
	}
	switch a := o.Answer; {
	case a.unknown():
		if s != nil && s.body() == o.Body {
			c.mayBegin(s, o)
		}
	case a.ok() && s == nil:
		c.fail("an acknowledged start has no saga", o)
	case a.ok() && (s.ID() != a.Saga || s.body() != o.Body):
		c.fail(fmt.Sprintf("an acknowledged start has saga %s (%s), its key saga %s (%s)", a.Saga, o.Body, s.ID(), s.body()), o)
	case a.ok():
		e := event{begins: a.Status == 201}
		if !e.begins {
			e.at = existing
		}
		c.says(s, o, e)
		c.reads(s, o, a.Seq, a.Body)
	case a.Code == "idempotency_key_reused" && s != nil && s.body() != o.Body:
		c.says(s, o, event{at: existing})
	default:
		c.fail("a start was refused that nothing speaks against", o)
	}
}

// mayBegin notes a start whose response was lost. It may have begun the saga at any time since, so
// if there are several, the earliest is enough: a checker that tries them in every order would
// never end.
func (c *checker) mayBegin(s *Saga, o Op) {
	for i, h := range c.history[s] {
		if !h.Input.(event).mayBegin {
			continue
		}
		if h.Call > int64(o.Call) {
			c.history[s][i].Call, c.history[s][i].ClientId = int64(o.Call), o.Client
		}
		return
	}
	c.says(s, o, event{mayBegin: true})
}

func (c *checker) get(o Op) {
	s := c.byID[o.Saga]
	switch a := o.Answer; {
	case a.unknown():
	case s == nil || !a.ok():
		c.fail("a saga that a start had named was not to be had", o)
	case a.Status == 304 && a.Seq != o.Known:
		c.fail("a saga has not changed, yet it has another ETag", o)
	case a.Status == 304:
		c.says(s, o, event{at: exactly(a.Seq)})
	default:
		c.reads(s, o, a.Seq, a.Body)
	}
}

func (c *checker) journal(o Op) {
	s, a := c.byID[o.Saga], o.Answer
	if a.unknown() {
		return
	}
	if s == nil || !a.ok() || a.Failed != "" {
		c.fail("a journal was not to be had: "+a.Failed, o)
		return
	}
	if why := s.differs(o.After, a.Records); why != "" {
		c.fail(fmt.Sprintf("saga %s: the journal %s", s.ID(), why), o)
		return
	}
	end := o.After + int64(len(a.Records))
	switch {
	case a.More:
		c.says(s, o, event{at: []span{{end + 1, s.length()}}})
	case len(a.Records) == 0:
		c.says(s, o, event{at: []span{{1, o.After}}})
	default:
		c.says(s, o, event{at: exactly(end)})
	}
}

func (c *checker) linearize(m porcupine.Model, history []porcupine.Operation, what string, ops []Op) {
	result, info := porcupine.CheckOperationsVerbose(m, history, patience)
	switch result {
	case porcupine.Illegal:
		c.found = append(c.found, Violation{What: what, Ops: ops, model: m, info: info, drawn: true})
	case porcupine.Unknown:
		c.fail(what+": not decided in time", ops...)
	}
}
