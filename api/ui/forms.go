package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"recourse/saga"
)

// entry is an entry of the inbox, as GET /v1/inbox lists it.
type entry struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Saga       string    `json:"saga"`
	Definition string    `json:"definition"`
	Path       string    `json:"path"`
	Since      saga.Time `json:"since"`
	saga.Entry
}

// tried is an order that was given by a form and refused: what was typed is shown again, with the
// problem beside it.
type tried struct {
	Do      string // resolve, approve, reject, cancel, …
	Path    string // of the step; "" for the saga
	Typed   url.Values
	Problem *problem
}

// entryForms is what the templates of templates/forms.html get: one entry, and how somebody may
// answer it.
//
// The forms post to /sagas/{id}/steps/{path}/resolve, …/approve and …/reject. Hidden in them are
// `etag` (the picture that a resolution is based on: If-Match), `shown_hash` (what an approval
// approves), `seen` (what that was when it was shown), and `back`, the page to return to when the
// order was carried out. If it is refused, the saga's page is shown with the form as it was filled
// in.
//
// `{{template "entry-what" .}}` shows what is asked, sent or to be approved; `{{template
// "entry-answer" .}}` the form, or why there is none. A page makes them with visit.forms.
type entryForms struct {
	entry
	Back   string
	Who    who
	Tried  *tried  // about this entry; nil: nothing was
	Checks []check // how to look on the other side; none: the common advice
}

// forms makes an entry's forms. back is the page to return to; was may be nil, or about something
// else.
func (v *request) forms(e entry, back string, was *tried) entryForms {
	f := entryForms{entry: e, Back: back, Who: v.who}
	if was != nil && was.Path == e.Path && slices.Contains([]string{"resolve", "approve", "reject"}, was.Do) {
		f.Tried = was
	}
	return f
}

// Approval reports whether the entry asks for an approval, and not for a resolution.
func (f entryForms) Approval() bool { return f.Kind == saga.InboxApproval }

// Budget reports whether the entry asks for more money: the saga's page has the form for that.
func (f entryForms) Budget() bool { return f.Kind == saga.InboxBudget }

// Program reports whether the saga is in quarantine: nobody can resolve it, the program has to be
// mended.
func (f entryForms) Program() bool { return f.Path == "" && !f.Budget() }

// MayDecide reports whether the reader is one of those who may approve. Whether four eyes are asked
// for the API knows.
func (f entryForms) MayDecide() bool {
	return f.Who.Can("decide") && (!f.Who.KeysRequired || len(f.Approvers) == 0 || slices.Contains(f.Approvers, f.Who.Name) || slices.Contains(f.Approvers, f.Who.Role))
}

// MayResolve reports whether the reader may resolve steps.
func (f entryForms) MayResolve() bool { return f.Who.Can("operate") }

// At is the address that a form posts to.
func (f entryForms) At(do string) string { return path("sagas", f.Saga, "steps", f.Path, do) }

// Typed is what was typed before.
func (f entryForms) Typed(name string) string {
	if f.Tried == nil {
		return ""
	}
	return f.Tried.Typed.Get(name)
}

// Problem is why what was typed was refused; nil: nothing was.
func (f entryForms) Problem() *problem {
	if f.Tried == nil {
		return nil
	}
	return f.Tried.Problem
}

// Changed is what has changed since it was shown to the reader, whose decision was refused for
// that; nil: nothing has.
func (f entryForms) Changed() []diffLine {
	if f.Tried == nil || !f.Tried.Typed.Has("seen") || !strings.HasSuffix(f.Tried.Problem.Type, ":stale") {
		return nil
	}
	return diff(pretty(json.RawMessage(f.Typed("seen"))), pretty(f.Shown))
}

// Fields are the inputs for the data that comes with an approval, with what was typed before.
func (f entryForms) Fields() []*control {
	if len(f.Form) == 0 {
		return nil
	}
	fields := formOf(f.Form, dataAt, nil)
	if f.Tried != nil {
		fill(fields, f.Tried.Typed)
		_, _ = documentOf(fields) // says at its fields what is no JSON
		blame(fields, f.Tried.Problem.Errors)
	}
	return fields
}

// outcome is a word that a step can be resolved with.
type outcome struct {
	Word, Title, Then string
	Output            string // the label of the JSON that goes with it; "" for none
	NewKey            bool   // a new key may be asked for
	Chosen            bool
}

// Outcomes are the words that the entry's step can be resolved with now, with what follows from
// each.
func (f entryForms) Outcomes() []outcome {
	undo := f.Way == "undo"
	words := map[string]outcome{
		"succeeded":   {Title: "It did happen", Then: "The step counts as succeeded, and the saga continues with the output that you enter.", Output: "the step's output, as later steps read it"},
		"failed":      {Title: "It did not happen", Then: "The step counts as failed, without an effect. The steps before it are undone, unless the definition says otherwise."},
		"retry":       {Title: "Send it again", Then: "The same request is sent at once, with the same key.", NewKey: f.Kind == saga.InboxStuck && !undo},
		"skip":        {Title: "Leave it", Then: "The saga continues without the step."},
		"compensated": {Title: "I have undone it by hand", Then: "The step counts as failed and undone. The steps before it are undone, too."},
	}
	if undo {
		words["retry"] = outcome{Title: "Undo it again", Then: "The same request is sent with the same key. If you enter JSON below, a new request is sent under a new key.", Output: "another input for the undo's templates"}
		words["compensated"] = outcome{Title: "I have undone it by hand", Then: "The step counts as undone, and the saga continues to undo its other steps."}
		words["skip"] = outcome{Title: "Leave its effect", Then: "The effect remains. The saga ends as failed, and lists this step among the remaining effects."}
	}
	if f.Kind == saga.InboxHeld {
		words["retry"] = outcome{Title: "The credentials are fixed: send it again", Then: words["retry"].Then}
	}
	if f.Kind == saga.InboxInDoubt {
		o := words["skip"]
		o.Then = "The saga continues, although the step stays in doubt. If the saga is undone later, the step is undone, too."
		words["skip"] = o
	}
	var list []outcome
	for _, word := range f.Actions {
		o, ok := words[word]
		if !ok {
			continue
		}
		o.Word, o.Chosen = word, f.Typed("outcome") == word
		list = append(list, o)
	}
	return list
}

// Output are the outcomes that JSON goes with, in words; "" for none.
func (f entryForms) Output() string {
	var list []string
	for _, o := range f.Outcomes() {
		if o.Output != "" {
			list = append(list, "with “"+o.Title+"”: "+o.Output)
		}
	}
	return strings.Join(list, "; ")
}

// NewKey reports whether a retry under a new key may be asked for.
func (f entryForms) NewKey() bool {
	return slices.ContainsFunc(f.Outcomes(), func(o outcome) bool { return o.NewKey })
}

// resolveStep serves POST /sagas/{id}/steps/{path}/resolve.
func resolveStep(v *request) error {
	f := v.posted()
	body := map[string]any{"outcome": f.Get("outcome"), "reason": f.Get("reason")}
	if f.Get("new_key") != "" {
		body["new_key"] = true
	}
	text := strings.TrimSpace(f.Get("output"))
	if text == "" && f.Get("outcome") == "succeeded" { // the API takes that, and what reads the output fails later
		return v.refused("resolve", v.r.PathValue("path"), &problem{Status: http.StatusUnprocessableEntity, Title: "The step's output is missing",
			Detail: "Nothing was resolved. Enter the result that the remote service shows, as later steps read it, such as {\"id\": \"ch_1\"}; or null, if nothing reads it."})
	}
	if text != "" {
		doc, err := jsonOf("output", text)
		if err != nil {
			return v.refused("resolve", v.r.PathValue("path"), err)
		}
		body["output"] = doc
	}
	header := http.Header{"If-Match": {`"` + f.Get("etag") + `"`}}
	return v.decide("resolve", body, header, "resolved as "+say(f.Get("outcome")))
}

// approveStep serves POST /sagas/{id}/steps/{path}/approve.
func approveStep(v *request) error {
	data, err := v.data(v.r.PathValue("id"), v.r.PathValue("path"))
	if err != nil {
		return v.refused("approve", v.r.PathValue("path"), err)
	}
	return v.decide("approve", v.decision(data), nil, "approved")
}

// rejectStep serves POST /sagas/{id}/steps/{path}/reject.
func rejectStep(v *request) error { return v.decide("reject", v.decision(nil), nil, "rejected") }

func (v *request) decision(data json.RawMessage) map[string]any {
	body := map[string]any{"comment": v.r.PostFormValue("comment"), "shown": v.r.PostFormValue("shown_hash")}
	if data != nil {
		body["data"] = data
	}
	return body
}

// decide has the API decide about a step, and goes back to where the form was.
func (v *request) decide(do string, body any, header http.Header, done string) error {
	step := v.r.PathValue("path")
	r, err := v.api.send(http.MethodPost, path("v1", "sagas", v.r.PathValue("id"), "steps", step, do), body, header, nil)
	if err != nil {
		return v.refused(do, step, err)
	}
	if r.status == http.StatusAccepted {
		done = "ordered to be " + done + "; no node has read the order yet"
	}
	return v.done(v.returns(), "Step "+step+" is "+done+".")
}

// posted is the form that was sent.
func (v *request) posted() url.Values {
	_ = v.r.ParseForm() // what cannot be read is missing, which the API says
	return v.r.PostForm
}

// returns is the page that a form goes back to: what it names, or the saga's.
func (v *request) returns() string {
	if to := local(v.r.PostFormValue("back")); to != "/" {
		return to
	}
	return path("sagas", v.r.PathValue("id"))
}

// refused shows the saga's page with the form as it was filled in, and why the order was not
// carried out.
func (v *request) refused(do, step string, err error) error {
	var p *problem
	if !errors.As(err, &p) || p.Status == http.StatusUnauthorized || p.Status == http.StatusNotFound {
		return err
	}
	if p.Status == http.StatusPreconditionFailed {
		p.Title, p.Detail = "The saga has changed since you opened the page", "Nothing was done. The page now shows the current state: check it, then decide."
	}
	return v.sagaPage(p.Status, &tried{Do: do, Path: step, Typed: v.posted(), Problem: p})
}
