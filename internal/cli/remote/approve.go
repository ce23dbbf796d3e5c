package remote

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/saga"
	"recourse/saga/machine"
)

// Approve is `recourse approve`.
type Approve struct {
	ServerFlags
	cli.OutputFlag
	Saga    string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Step    string `arg:"" completion-predictor:"step" help:"The step's path, as the inbox prints it."`
	Data    string `placeholder:"JSON" help:"Values for the approval's form: JSON, @FILE or - for stdin."`
	Comment string `short:"m" aliases:"reason" help:"Comment, for the journal; --reason works, too."`
	Yes     bool   `short:"y" help:"Approve without a prompt."`
}

// nothing is a hash that matches no content. With it the server approves nothing and explains why.
var nothing = strings.Repeat("0", 64)

// Run shows the content of the approval, and approves exactly that content.
func (c *Approve) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	data, err := a.JSONArg("--data", c.Data)
	if err != nil {
		return err
	}
	if c.Saga, err = cl.fullID(c.Saga); err != nil {
		return err
	}
	e, err := cl.approval(c.Saga, c.Step)
	if err != nil {
		return err
	}
	body := map[string]any{"shown": nothing}
	if e != nil {
		body["shown"] = e.ShownHash
		if !c.Machine() {
			a.Printf("%s\n", story.Paint(story.Short(e.Title, 400), story.Strong, a.Colour))
			showRequest(a, *e)
			if err := a.Confirm(a.Stdout, "Approve?", c.Yes, "nothing was decided"); err != nil {
				return err
			}
		}
	}
	if data != nil {
		body["data"] = data
	}
	return decide(a, cl, c.OutputFlag, c.Saga, c.Step, "approve", body, c.Comment)
}

// Reject is `recourse reject`.
type Reject struct {
	ServerFlags
	cli.OutputFlag
	Saga    string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Step    string `arg:"" completion-predictor:"step" help:"The step's path, as the inbox prints it."`
	Comment string `short:"m" aliases:"reason" help:"Reason, for the journal; --reason works, too."`
}

// Run rejects the approval.
func (c *Reject) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	return decide(a, cl, c.OutputFlag, c.Saga, c.Step, "reject", map[string]any{}, c.Comment)
}

// approval returns the inbox entry of an approval; nil if there is none.
func (c *Client) approval(id, step string) (*InboxEntry, error) {
	list, err := ReadAll[InboxEntry](c, "/v1/inbox", url.Values{"kind": {saga.InboxApproval}, "saga": {id}}, 0)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Path == step {
			return &e, nil
		}
	}
	return nil, nil
}

// showRequest prints the whole content of an approval, because the person decides about all of it.
func showRequest(a *cli.App, e InboxEntry) {
	if len(e.Shown) > 0 {
		a.Printf("  %s\n", indented(e.Shown))
	}
	switch {
	case e.Stale != nil && e.Stale.Answer:
		a.Printf("  asked again: the answer of step %s has changed since it was decided, %s\n", story.Short(e.Stale.Step, 400), story.Short(e.Stale.Detail, 400))
	case e.Stale != nil:
		a.Printf("  asked again: step %s would send another request than the approved one, %s\n", story.Short(e.Stale.Step, 400), story.Short(e.Stale.Detail, 400))
	}
	for _, s := range e.Covers {
		a.Printf("  covers %s:\n  %s\n", story.Short(s.Path, 400), indented(saga.Encode(saga.Visible(saga.Encode(s)))))
	}
	if len(e.Approvers) > 0 {
		a.Printf("  to be decided by: %s\n", story.Short(strings.Join(e.Approvers, ", "), 400))
	}
	if len(e.Form) > 0 {
		a.Printf("  asks for data (--data): %s\n", story.Short(string(e.Form), 2000))
	}
}

// indented formats JSON over several lines, with the characters as escapes that a person cannot
// see.
func indented(doc json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, doc, "  ", "  ") != nil {
		return story.Short(saga.VisibleText(string(doc)), 10*len(doc))
	}
	return saga.VisibleText(b.String())
}

// decide sends a decision and prints the step.
func decide(a *cli.App, cl *Client, o cli.OutputFlag, id, step, do string, body map[string]any, comment string) error {
	if comment != "" {
		body["comment"] = comment
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: SagaPath(id, "steps", step, do), Body: body})
	if err != nil {
		return err
	}
	if o.Machine() {
		return a.Raw(r.Body)
	}
	var v machine.StepView
	if err := r.Into(&v); err != nil {
		return err
	}
	if r.Unread() {
		a.Printf("%s %s: the decision is kept, but no node has read it yet\n", v.Path, v.Status)
		return nil
	}
	a.Printf("%s %s\n", v.Path, map[string]string{"approve": "approved", "reject": "rejected"}[do])
	return nil
}

// Signal is `recourse signal`.
type Signal struct {
	ServerFlags
	cli.OutputFlag
	Saga    string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Name    string `arg:"" help:"The signal's name, as in the definition's signal step."`
	Payload string `arg:"" optional:"" help:"JSON, @FILE or - for stdin. Default: null."`
	Key     string `placeholder:"KEY" help:"An idempotency key: the same signal under the same key is one signal."`
}

// Run sends the signal.
func (c *Signal) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	payload, err := a.JSONArg("PAYLOAD", c.Payload)
	if err != nil {
		return err
	}
	if c.Key != "" { // a key belongs to one path
		if c.Saga, err = cl.fullID(c.Saga); err != nil {
			return err
		}
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: SagaPath(c.Saga, "signals", c.Name), Body: []byte(payload), Header: map[string]string{"Idempotency-Key": c.Key}})
	if err != nil {
		return err
	}
	if c.Machine() {
		return a.Raw(r.Body)
	}
	a.Printf("%s sent\n", c.Name)
	return nil
}
