package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/saga"
	"recourse/saga/machine"
)

// Sessions is `recourse sessions`.
type Sessions struct {
	List    ListSessions `cmd:"" help:"List sessions, newest first."`
	Show    ShowSession  `cmd:"" help:"Show a session and its calls."`
	Abort   AbortSession `cmd:"" help:"Abort a session: undo its calls."`
	Fork    Fork         `cmd:"" help:"Open a session that begins as another one was after one of its records."`
	Compare Compare      `cmd:"" help:"Say how two sessions differ, call by call."`
}

// ListSessions is `recourse sessions list`.
type ListSessions struct {
	ServerFlags
	cli.OutputFlag
	Name   string   `short:"n" placeholder:"NAME" help:"Only sessions with this name."`
	Status string   `short:"s" completion-predictor:"status" placeholder:"STATUS" help:"Only this status, or several, separated by commas."`
	Label  []string `short:"l" sep:"none" placeholder:"K=V" help:"Only sessions with this label; repeatable."`
	Limit  int      `default:"50" help:"Maximum to list, newest first; 0 for all."`
}

// Run lists sessions.
func (c *ListSessions) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	q := url.Values{"limit": {"200"}}
	if c.Name != "" {
		q.Set("definition", saga.SessionPrefix+c.Name)
	}
	if c.Status != "" {
		q.Set("status", c.Status)
	}
	labels, err := cli.Pairs("--label", c.Label)
	if err != nil {
		return err
	}
	for k, v := range labels {
		q.Set("label."+k, v)
	}
	list, back, err := sessionsAmong(cl, q, max(c.Limit, 0))
	if err != nil {
		return err
	}
	if c.Machine() {
		err = printList(a, list)
	} else {
		err = printRawSagas(a, list)
	}
	if !back.IsZero() {
		a.Note("Searched back to %s; older sessions are not listed: --name finds all sessions with a name", cli.Clock(back))
	}
	return err
}

// sessionPages is the maximum of pages of 200 sagas that a list of sessions of any name scans.
const sessionPages = 200

// sessionsAmong reads sagas until it has limit sessions (0: all). The API cannot select the
// sessions of all names, so other sagas are left out here. back is the time up to which it has
// searched, if it has given up.
func sessionsAmong(cl *Client, q url.Values, limit int) (list []json.RawMessage, back time.Time, err error) {
	for range sessionPages {
		var p Page[json.RawMessage]
		if _, err := cl.Get("/v1/sagas?"+q.Encode(), &p); err != nil {
			return nil, back, err
		}
		back = p.LookedBackTo.Time
		for _, raw := range p.Data {
			var v machine.View
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, back, fmt.Errorf("the server's response cannot be read: %w", err)
			}
			back = v.CreatedAt.Time
			if !saga.IsSession(v.Definition) {
				continue
			}
			if list = append(list, raw); len(list) == limit {
				return list, time.Time{}, nil
			}
		}
		if p.Next == "" {
			return list, time.Time{}, nil
		}
		q.Set("cursor", p.Next)
	}
	return list, back, nil
}

// ShowSession is `recourse sessions show`.
type ShowSession struct {
	ServerFlags
	cli.OutputFlag
	Session string `arg:"" completion-predictor:"saga" help:"The session's id, or its first 8 characters or more."`
}

// sessionView is what the commands read of a session.
type sessionView struct {
	machine.View
	Session struct {
		Name     string   `json:"name"`
		Actions  []string `json:"actions"`
		Life     int      `json:"life"`
		Attached bool     `json:"attached"`
	} `json:"session"`
}

// Run shows a session.
func (c *ShowSession) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	var v sessionView
	r, err := cl.Get(SessionPath(c.Session), &v)
	if err != nil {
		return err
	}
	raw, err := ReadAll[json.RawMessage](cl, SessionPath(v.ID, "calls"), url.Values{}, 0)
	if err != nil {
		return err
	}
	steps, err := ReadAll[json.RawMessage](cl, SessionPath(v.ID, "steps"), url.Values{}, 0)
	if err != nil {
		return err
	}
	if c.Machine() {
		var session map[string]json.RawMessage
		if err := r.Into(&session); err != nil {
			return err
		}
		for name, list := range map[string][]json.RawMessage{"calls": raw, "steps": steps} {
			if list == nil {
				list = []json.RawMessage{}
			}
			if session[name], err = json.Marshal(list); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
		return a.Encode(session)
	}
	printView(a, v.View)
	process := "no process has attached"
	switch s := v.Session; {
	case v.Status.Terminal() && s.Life > 0:
		process = "ended in life " + strconv.Itoa(s.Life)
	case s.Attached:
		process = "life " + strconv.Itoa(s.Life) + ", attached"
	case s.Life > 0:
		process = "none is attached; life " + strconv.Itoa(s.Life) + " was the last"
	}
	a.Printf("  %-8s %s\n  %-8s %s\n\n", "actions", strings.Join(v.Session.Actions, ", "), "process", process)
	return printCalls(a, append(raw, steps...))
}

// printCalls prints a table of calls and own steps, which have the same fields except the action.
func printCalls(a *cli.App, raw []json.RawMessage) error {
	if len(raw) == 0 {
		a.Printf("It has made no calls.\n")
		return nil
	}
	var rows [][]string
	for _, text := range raw {
		var v machine.CallView
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("the server's response cannot be read: %w", err)
		}
		result := string(v.Output)
		if v.Error != nil {
			result = v.Error.Error()
		}
		if v.WaitsFor != "" {
			result = "waits for: " + v.WaitsFor
		}
		rows = append(rows, []string{v.Path, cmp.Or(v.Action, "by the agent"), string(v.Status), string(v.Undo), string(v.Input), result, v.Key})
	}
	a.Table([]cli.Column{{Head: "CALL", Least: 12}, {Head: "ACTION"}, {Head: "STATUS"}, {Head: "UNDO"}, {Head: "INPUT", Least: 12}, {Head: "OUTPUT OR ERROR", Least: 12, Extra: true}, {Head: "KEY", Extra: true}}, rows)
	return nil
}

// AbortSession is `recourse sessions abort`.
type AbortSession struct {
	ServerFlags
	cli.OutputFlag
	Session string        `arg:"" completion-predictor:"live" help:"The session's id, or its first 8 characters or more."`
	Reason  string        `short:"r" help:"Reason, for the journal."`
	Wait    time.Duration `default:"30s" help:"How long to wait for the end of the session; default ${default}, 0s: not at all."`
}

// Run aborts a session, and waits until its calls are undone.
func (c *AbortSession) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: SessionPath(c.Session, "abort"), Body: map[string]string{"reason": c.Reason}})
	if err != nil {
		return err
	}
	var v machine.View
	if err := r.Into(&v); err != nil {
		return err
	}
	var lost error // the wait's
	if c.Wait > 0 && !v.Status.Terminal() {
		if end, is, err := cl.Await(v.ID, c.Wait); err == nil {
			r, v = end, is
		} else {
			lost = cli.Exit(cli.ExitCode(err), fmt.Errorf("the abort is accepted, but its end is not known: %w; %s shows it", err, c.Command(a, "show "+v.ID+" --follow")))
		}
	}
	if c.Machine() {
		if err := a.Raw(r.Body); err != nil {
			return err
		}
	} else {
		a.Printf("%s  %s\n", v.ID, view.Status(a, v.Status))
	}
	if lost != nil || c.Wait <= 0 {
		return lost
	}
	return c.undone(a, &v, "the session")
}
