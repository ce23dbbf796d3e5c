package dsl

import (
	"fmt"
	"slices"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// Covers reads the steps whose requests an approval shows. They come later in the same list, so
// they are checked at its end.
func (d *Decoder) Covers(n *Node) {
	if n.Form != List || len(n.Items) == 0 {
		d.p.expect(n, "a list of at least one step, such as [refund]")
		return
	}
	names := make(map[string]bool)
	for _, item := range n.Items {
		id, ok := d.p.str(item, "the id of a step")
		switch {
		case !ok:
		case names[id]:
			d.p.fail(item, "duplicate_name", fmt.Sprintf("%q is listed twice: remove one", clip(id, 60)))
		default:
			names[id] = true
			d.into.Covers = append(d.into.Covers, id)
			d.p.covers[d.into] = append(d.p.covers[d.into], item)
		}
	}
}

// covered checks what the approvals of a list cover, and notes it at the covered steps.
func (p *parser) covered(list []*saga.Step, s *scope) {
	for i, a := range list {
		names := p.covers[a]
		switch {
		case len(names) == 0:
			continue
		case s.end:
			p.fail(names[0], "cannot_cover", "finally goes on after a rejection, so an approval there holds no request back: remove covers")
			continue
		case a.Continue:
			p.fail(p.nodes[a].Get("on_error"), "cannot_cover", "the saga would go on after a rejection, and send what was rejected: leave on_error out, or remove covers")
		}
		for _, name := range names {
			if why := p.cannotCover(list, i, name); why != "" {
				p.fail(name, "cannot_cover", why)
			} else if step := p.def.ByID[name.value]; step != nil {
				step.CoveredBy = append(step.CoveredBy, a.ID)
			}
		}
	}
}

// cannotCover returns why the approval list[at] cannot cover the step that a node names, "" if it
// can. Of a step that could not be compiled it says nothing.
func (p *parser) cannotCover(list []*saga.Step, at int, name *Node) string {
	id := name.value
	i := slices.IndexFunc(list, func(s *saga.Step) bool { return s.ID == id })
	other := p.written[id]
	switch {
	case i < 0 && other == nil:
		return fmt.Sprintf("there is no step %q%s", clip(id, 60), Suggest(id, later(list, at)))
	case i < 0 && other.parent == p.nodes[list[at]].parent:
		return ""
	case i < 0:
		return fmt.Sprintf("%q (line %d) is in another list of steps: an approval covers steps that come after it in its own list", id, other.Line)
	case i <= at:
		return fmt.Sprintf("%q does not come after this approval, so its request has left before", id)
	case list[i].Body == nil:
		return ""
	}
	step := list[i]
	if _, sends := step.Body.(saga.Call); !sends {
		return fmt.Sprintf("%q is a step of kind %s, which sends no request of its own: cover steps that send one, or show what it does", id, step.Kind)
	}
	if _, changes := step.Body.(saga.Sequel); changes {
		return fmt.Sprintf("%q is a step of kind %s, which may send another request than the one that is shown: to another model, or for the repair of an answer", id, step.Kind)
	}
	if source := p.knownLater(list[at:i], step); source != "" {
		return fmt.Sprintf("the request of %q reads steps.%s, which is known only after this approval is decided: move %s before the approval, or do not cover %q", id, source, source, id)
	}
	return ""
}

// later lists the ids of the steps after list[at].
func later(list []*saga.Step, at int) (ids []string) {
	for _, s := range list[at+1:] {
		ids = append(ids, s.ID)
	}
	return ids
}

// knownLater returns the first of some steps, or of the steps inside them, that the request of a
// step reads; "" if it reads none.
func (p *parser) knownLater(between []*saga.Step, step *saga.Step) string {
	r := p.readings[step.ID]
	if r == nil {
		return ""
	}
	for _, s := range innerFirst(nil, between) {
		for _, ref := range r.sent {
			if ref.Root == "steps" && len(ref.Path) > 0 && ref.Path[0] == s.ID {
				return s.ID
			}
		}
	}
	return ""
}

// hides warns of a write after an approval that sends data which the approval neither shows nor
// covers.
func (w *warner) hides(s *saga.Step) {
	r := w.readings[s.ID]
	if r == nil || !writes(s) || len(s.CoveredBy) > 0 || inner(s) {
		return
	}
	asked := w.approvalsBefore(s, r)
	if len(asked) == 0 {
		return
	}
	a := asked[0]
	h := hidden{warner: w, asked: asked, last: w.written[a.ID], seen: map[string]bool{}}
	name := h.first(r)
	if name == "" {
		return
	}
	fix := "show it"
	if w.nodes[a].parent == w.nodes[s].parent {
		fix += ", or write covers: [" + s.ID + "]"
	}
	w.say(s, s.Kind, "approval-hides", fmt.Sprintf("%q sends %s, and the approval %q before it neither shows that nor covers the step: %s", s.ID, name, a.ID, fix))
}

// maxApprovals is how many approvals before a write are searched for what they show.
const maxApprovals = 100

// approvalsBefore lists the approvals on the path to a step, the last first.
func (w *warner) approvalsBefore(s *saga.Step, r *reading) (list []*saga.Step) {
	if w.approvals == nil {
		w.approvals = w.findApprovals()
	}
	at, _ := slices.BinarySearchFunc(w.approvals, w.written[s.ID], func(a *saga.Step, n *Node) int { return byPlace(w.written[a.ID], n) })
	for _, a := range slices.Backward(w.approvals[max(0, at-maxApprovals):at]) {
		if r.scope.sees(a.ID) && w.sequential(a, s) {
			list = append(list, a)
		}
	}
	return list
}

// sequential reports whether two steps, or the steps around them, are in one list that runs in its
// order, and not in two branches.
func (w *warner) sequential(a, b *saga.Step) bool {
	around := map[*Node]bool{}
	for n := w.nodes[b]; n != nil; n = n.parent {
		around[n] = true
	}
	for n := w.nodes[a]; n != nil; n = n.parent {
		if around[n] {
			return n.Form == List && contains([]string{"steps", "finally"}, n.token) || n.parent == nil
		}
	}
	return false
}

// findApprovals lists all approvals by their place. It is not nil.
func (w *warner) findApprovals() []*saga.Step {
	list := []*saga.Step{}
	for _, s := range w.def.ByID { // any order
		if w.kinds[s.Kind].Output == Person && !inner(s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *saga.Step) int { return byPlace(w.written[a.ID], w.written[b.ID]) })
	return list
}

// byPlace compares two nodes by their place in the document.
func byPlace(a, b *Node) int {
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return 0
}

// shows returns the values that an approval shows, as expressions write them.
func (w *warner) shows(a *saga.Step) map[string]bool {
	if shown := w.shown[a]; shown != nil {
		return shown
	}
	shown := map[string]bool{}
	if r := w.readings[a.ID]; r != nil {
		for _, ref := range r.sent {
			shown[nameOf(ref, len(ref.Path))] = true
		}
	}
	if w.shown == nil {
		w.shown = map[*saga.Step]map[string]bool{}
	}
	w.shown[a] = shown
	return shown
}

// nameOf writes the first parts of a reference.
func nameOf(ref expr.Ref, parts int) string {
	return strings.Join(append([]string{ref.Root}, ref.Path[:parts]...), ".")
}

// hidden searches for data that was known when the last approval was asked and was not shown.
type hidden struct {
	*warner
	asked []*saga.Step    // the approvals, the last first
	last  *Node           // of the last one
	seen  map[string]bool // the steps and loops whose data was searched
}

// first returns the first value, as an expression writes it, that a reading has and that was not
// shown; "" for none.
func (h *hidden) first(r *reading) string {
	for _, ref := range r.sent {
		if name := h.datum(ref, r.scope); name != "" {
			return name
		}
	}
	return ""
}

// datum returns the name of the data of a reference that was not shown, "" if all of it was, or if
// it is no data: the server's configuration, or what came after the approval.
func (h *hidden) datum(ref expr.Ref, s *scope) string {
	name, loop := nameOf(ref, len(ref.Path)), s.loopOf(ref.Root)
	switch {
	case h.isShown(ref):
		return ""
	case ref.Root == "input", ref.Root == "saga" && len(ref.Path) > 0 && ref.Path[0] == "labels":
		return name
	case ref.Root == "steps" && len(ref.Path) > 0:
		return h.output(ref.Path[0], name)
	case loop == "" || ref.Root == "index" || ref.Root == "history":
		return ""
	}
	return h.inside(loop, name) // an item, which is shown if the list is
}

// output is datum for a step's output.
func (h *hidden) output(id, name string) string {
	step := h.def.ByID[id]
	if step == nil {
		return ""
	}
	kind := h.kinds[step.Kind]
	_, block := step.Body.(saga.Block)
	switch {
	case kind.Output == Person:
		return ""
	case kind.Output == Made && !block:
		return h.inside(id, "")
	case before(h.last, h.written[id]):
		return ""
	}
	return name
}

// inside searches the data that a step is made from, or a loop runs over. What is missing gets the
// name, if there is one.
func (h *hidden) inside(id, name string) string {
	r := h.readings[id]
	if h.seen[id] || r == nil {
		return ""
	}
	h.seen[id] = true
	found := h.first(r)
	if found != "" && name != "" {
		return name
	}
	return found
}

// isShown reports whether an approval shows the value, or a value that contains it.
func (h *hidden) isShown(ref expr.Ref) bool {
	for parts := range len(ref.Path) + 1 {
		name := nameOf(ref, parts)
		if slices.ContainsFunc(h.asked, func(a *saga.Step) bool { return h.shows(a)[name] }) {
			return true
		}
	}
	return false
}
