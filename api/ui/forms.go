package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/controls"
	"recourse/api/ui/diff"
	"recourse/api/ui/format"
	"recourse/saga"
)

// entry is an inbox entry, as GET /v1/inbox lists it.
type entry struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Saga       string    `json:"saga"`
	Definition string    `json:"definition"`
	Path       string    `json:"path"`
	Since      saga.Time `json:"since"`
	saga.Entry
}

// tried is a refused command: the form is shown again with the typed values and the problem.
type tried struct {
	Do      string // resolve, approve, reject, cancel, …
	Path    string // the step's path; "" for the saga
	Typed   url.Values
	Problem *rest.Problem
}

// entryForms is the data of templates/forms.html: one entry, and the forms for resolving it.
//
// The forms post to /sagas/{id}/steps/{path}/resolve, …/approve and …/reject. Their hidden fields
// are `etag` (the state that a resolution is based on: If-Match), `shown_hash` (the content that an
// approval approves), `seen` (that content when it was shown), and `back`, the page to return to
// after the command. If the command is refused, the saga's page shows the form with the typed
// values.
//
// `{{template "entry-what" .}}` shows the question, the request or the content to approve;
// `{{template "entry-answer" .}}` shows the form, or why there is none. Pages create the data with
// request.forms.
type entryForms struct {
	entry
	Back   string
	Who    who
	Tried  *tried  // the refused command about this entry, or nil
	Checks []check // ways to check in the remote service; none: general advice

	Compared *compared  // of a call that may repeat an earlier one; nil for others
	Lost     *abandoned // of a session that has lost its process; nil for others
}

// forms returns an entry's forms. back is the page to return to. was is a refused command, or nil;
// it may be about another entry.
func (v *request) forms(e entry, back string, was *tried) entryForms {
	f := entryForms{entry: e, Back: back, Who: v.who}
	if was != nil && was.Path == e.Path && slices.Contains([]string{"resolve", "approve", "reject"}, was.Do) {
		f.Tried = was
	}
	if f.Session() {
		f.Lost = v.lost(e.Saga)
	}
	return f
}

// Approval reports whether the entry needs an approval, not a resolution.
func (f entryForms) Approval() bool { return f.Kind == saga.InboxApproval }

// Budget reports whether the entry needs a higher budget. The saga's page has the form for it.
func (f entryForms) Budget() bool { return f.Kind == saga.InboxBudget }

// OnHold reports whether the entry is a step on hold, which a resume of the saga continues.
func (f entryForms) OnHold() bool { return f.Kind == saga.InboxExhausted }

// Repeat reports whether a person has to compare a call of a session with an earlier one.
func (f entryForms) Repeat() bool { return f.Kind == saga.InboxRepeat }

// Session reports whether no process of an agent has come back to its session.
func (f entryForms) Session() bool { return f.Kind == saga.InboxSession }

// Program reports whether the saga is in quarantine. Nobody can resolve that: the program or the
// definition has to be fixed.
func (f entryForms) Program() bool { return f.Path == "" && !f.Budget() && !f.Session() }

// MayDecide reports whether the user is among the approvers. Only the API knows whether the saga's
// starter is excluded.
func (f entryForms) MayDecide() bool {
	return f.Who.Can("decide") && (!f.Who.KeysRequired || len(f.Approvers) == 0 || slices.Contains(f.Approvers, f.Who.Name) || slices.Contains(f.Approvers, f.Who.Role))
}

// MayResolve reports whether the user may resolve steps.
func (f entryForms) MayResolve() bool { return f.Who.Can("operate") }

// At returns the path that a form posts to.
func (f entryForms) At(do string) string { return rest.Path("sagas", f.Saga, "steps", f.Path, do) }

// Typed returns a field's value from the refused form.
func (f entryForms) Typed(name string) string {
	if f.Tried == nil {
		return ""
	}
	return f.Tried.Typed.Get(name)
}

// Problem returns the problem of the refused form, or nil.
func (f entryForms) Problem() *rest.Problem {
	if f.Tried == nil {
		return nil
	}
	return f.Tried.Problem
}

// Changed returns the difference between the content that the user saw and the present one, if the
// decision was refused as stale; otherwise nil.
func (f entryForms) Changed() []diff.Line {
	if f.Tried == nil || !f.Tried.Typed.Has("seen") || !strings.HasSuffix(f.Tried.Problem.Type, ":stale") {
		return nil
	}
	return revealed(diff.Lines(format.JSON(json.RawMessage(f.Typed("seen"))), format.JSON(f.Content())))
}

// Content returns all that an approval shows, except for its title, as JSON.
func (f entryForms) Content() json.RawMessage {
	if len(f.Covers) == 0 {
		return f.Shown
	}
	return saga.Encode(struct {
		Shown  json.RawMessage `json:"shown,omitempty"`
		Covers []saga.Covered  `json:"covers"`
	}{f.Shown, f.Covers})
}

// Fields returns the fields for an approval's data, with the values from the refused form.
func (f entryForms) Fields() []*controls.Control {
	if len(f.Form) == 0 {
		return nil
	}
	fields := controls.Of(f.Form, dataAt, nil)
	if f.Tried != nil {
		controls.Fill(fields, f.Tried.Typed)
		_, _ = controls.Document(fields) // marks the fields that are not JSON
		controls.Blame(fields, f.Tried.Problem.Errors)
	}
	return fields
}

// outcome is an outcome that a step can be resolved with.
type outcome struct {
	Word, Title, Then string
	Output            string // the label of the JSON field that belongs to it; "" for none
	NewKey            bool   // a new key may be chosen
	Chosen            bool
}

// Outcomes returns the outcomes that the entry's step can be resolved with now, with their
// consequences.
func (f entryForms) Outcomes() []outcome {
	undo := f.Way == "undo"
	words := map[string]outcome{
		"succeeded":   {Title: "It happened", Then: "The step counts as succeeded, and the saga continues with the output that you enter.", Output: "the step's output, as later steps read it"},
		"failed":      {Title: "It did not happen", Then: "The step counts as failed, without an effect. The steps before it are undone, unless the definition says otherwise."},
		"retry":       {Title: "Send it again", Then: "The same request is sent at once, with the same key.", NewKey: (f.Kind == saga.InboxStuck || f.Kind == saga.InboxExhausted && !slices.Contains(f.Actions, "compensated")) && !undo},
		"skip":        {Title: "Leave it", Then: "The saga continues without the step."},
		"compensated": {Title: "I have undone it by hand", Then: "The step counts as failed and undone. The steps before it are undone, too."},

		saga.SameEffect: {Title: "It is the same", Then: "Nothing is sent. The agent gets the answer of the earlier call, also in later lives."},
		saga.NewEffect:  {Title: "It is another effect", Then: "The call is sent, after its approval if it needs one. Then both effects exist."},
	}
	if undo {
		words["retry"] = outcome{Title: "Undo it again", Then: "The same request is sent with the same key. If you enter JSON below, a new request is sent with a new key.", Output: "another input for the undo's templates"}
		words["compensated"] = outcome{Title: "I have undone it by hand", Then: "The step counts as undone, and the saga continues to undo its other steps."}
		words["skip"] = outcome{Title: "Leave its effect", Then: "The effect counts as remaining: the saga ends as failed, and lists the step among the remaining effects."}
	}
	if f.Kind == saga.InboxHeld {
		words["retry"] = outcome{Title: "It is fixed: send it again", Then: words["retry"].Then}
	}
	// Of a step, compensated is among the actions only if it is in doubt.
	if !undo && (f.Kind == saga.InboxInDoubt || slices.Contains(f.Actions, "compensated")) {
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

// Output lists the outcomes that have a JSON field, as text; "" for none.
func (f entryForms) Output() string {
	var list []string
	for _, o := range f.Outcomes() {
		if o.Output != "" {
			list = append(list, "with “"+o.Title+"”: "+o.Output)
		}
	}
	return strings.Join(list, "; ")
}

// NewKey reports whether a retry with a new key may be chosen.
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
	// The API accepts it, but a step that reads the output fails later.
	if text == "" && f.Get("outcome") == "succeeded" {
		return v.refused("resolve", v.r.PathValue("path"), &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "The step's output is missing",
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
	return v.decide("resolve", body, header, "resolved as "+format.Say(f.Get("outcome")))
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

// decide sends a decision about a step to the API, and returns to the page of the form.
func (v *request) decide(do string, body any, header http.Header, done string) error {
	step := v.r.PathValue("path")
	r, err := v.api.Send(http.MethodPost, rest.Path("v1", "sagas", v.r.PathValue("id"), "steps", step, do), body, header, nil)
	if err != nil {
		return v.refused(do, step, err)
	}
	if r.Unread() {
		done = "sent to be " + done + "; no node has read the command yet"
	}
	return v.done(v.returns(), "Step "+step+" is "+done+".")
}

// posted returns the submitted form.
func (v *request) posted() url.Values {
	_ = v.r.ParseForm() // unreadable fields are missing, which the API reports
	return v.r.PostForm
}

// returns is the page that a form leads back to: the one it names, or the saga's.
func (v *request) returns() string {
	if to := local(v.r.PostFormValue("back")); to != "/" {
		return to
	}
	return rest.Path("sagas", v.r.PathValue("id"))
}

// refused shows the saga's page with the refused form and its problem.
func (v *request) refused(do, step string, err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) || p.Status == http.StatusUnauthorized || p.Status == http.StatusNotFound {
		return err
	}
	if p.Status == http.StatusPreconditionFailed {
		p.Title, p.Detail = "The saga has changed since you opened the page", "Nothing was done. The page now shows the current state: check it, then decide."
	}
	return v.sagaPage(p.Status, &tried{Do: do, Path: step, Typed: v.posted(), Problem: p})
}
