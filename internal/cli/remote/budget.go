package remote

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/saga"
	"recourse/saga/machine"
)

// Budget is `recourse budget`.
type Budget struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Amount string `arg:"" optional:"" help:"The total budget, such as \"2.00 USD\"."`
	Tokens int64  `placeholder:"N" help:"Total tokens that the saga may use."`
	Reason string `short:"r" help:"Reason, for the journal."`
	IfSeq  int64  `placeholder:"SEQ" help:"Refuse the command if the saga has changed since this seq of its journal. Default: apply it to the saga as it is now."`
}

// Run changes the saga's budget. It keeps the limits that the flags do not name.
func (c *Budget) Run(a *cli.App) error {
	budget := map[string]any{}
	if c.Amount != "" {
		budget["amount"] = c.Amount
	}
	if c.Tokens != 0 {
		budget["tokens"] = c.Tokens
	}
	if len(budget) == 0 || c.Tokens < 0 {
		return cli.Exit(cli.Usage, errors.New("give the saga's total budget: an amount such as \"2.00 USD\", --tokens 100000, or both"))
	}
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	if c.Saga, err = cl.fullID(c.Saga); err != nil {
		return err
	}
	header := map[string]string{"If-Match": "*"}
	if c.IfSeq != 0 {
		header = ifMatch(c.IfSeq)
	}
	body := map[string]any{"budget": budget}
	if c.Reason != "" {
		body["reason"] = c.Reason
	}
	r, err := cl.Do(Call{Method: http.MethodPatch, Path: SagaPath(c.Saga), Body: body, Header: header})
	if err != nil {
		return err
	}
	if c.Machine() {
		return a.Raw(r.Body)
	}
	var v machine.View
	if err := r.Into(&v); err != nil {
		return err
	}
	a.Printf("%s  %s  %s\n", v.ID, view.Status(a, v.Status), limits(v.Cost))
	noteUnread(a, r)
	return nil
}

// limits describes how much of a budget is spent.
func limits(c saga.CostView) string {
	var parts []string
	if c.Budget != "" {
		parts = append(parts, fmt.Sprintf("%s of %s", c.Spent, strings.TrimSpace(c.Budget+" "+c.Currency)))
	}
	if t := c.Tokens; t.Budget > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", t.Input+t.Output, t.Budget))
	}
	return strings.Join(parts, ", ")
}

// seq returns the seq that a decision requires: the given one, or else the saga's present one.
func (c *Client) seq(id string, given int64) (int64, error) {
	if given != 0 {
		return given, nil
	}
	var v machine.View
	_, err := c.Get(SagaPath(id), &v)
	return v.Seq, err
}

// ifMatch returns the header that makes a decision fail if the saga has changed since.
func ifMatch(seq int64) map[string]string {
	return map[string]string{"If-Match": fmt.Sprintf("%q", fmt.Sprint(seq))}
}
