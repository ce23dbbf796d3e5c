package remote

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/retry"
	"recourse/saga"
)

// Inbox is `recourse inbox`.
type Inbox struct {
	ServerFlags
	cli.OutputFlag
	Kind string `enum:",approval,in_doubt,stuck,held,budget,exhausted,session,repeat" default:"" help:"Only this kind: approval, in_doubt, stuck, held, budget, exhausted, session or repeat."`
	Saga string `placeholder:"ID" completion-predictor:"saga" help:"Only entries of this saga."`
}

// InboxEntry is an entry as the API returns it.
type InboxEntry struct {
	ID         string        `json:"id"`
	Kind       string        `json:"kind"`
	Saga       string        `json:"saga"`
	Definition string        `json:"definition"`
	Path       string        `json:"path"`
	Since      saga.Time     `json:"since"`
	Title      string        `json:"title"`
	Detail     string        `json:"detail"`
	Request    *saga.Request `json:"request"`
	Key        string        `json:"key"`
	Actions    []string      `json:"actions"`
	ETag       string        `json:"etag"`

	// Fields of an approval.
	Shown     json.RawMessage `json:"shown"`
	Covers    []saga.Covered  `json:"covers"`
	Stale     *saga.Stale     `json:"stale"`
	ShownHash string          `json:"shown_hash"`
	Approvers []string        `json:"approvers"`
	Form      json.RawMessage `json:"form"`
}

// Run lists the inbox.
func (c *Inbox) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	q := url.Values{}
	if c.Kind != "" {
		q.Set("kind", c.Kind)
	}
	if c.Saga != "" {
		q.Set("saga", c.Saga)
	}
	if c.Machine() {
		return listRaw(a, cl, "/v1/inbox", q, 0)
	}
	list, err := ReadAll[InboxEntry](cl, "/v1/inbox", q, 0)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.Printf("Inbox is empty.\n")
	}
	for i, e := range list {
		if i > 0 {
			a.Printf("\n")
		}
		printEntry(a, e, c.Named(a))
	}
	return nil
}

// printEntry prints an entry and the commands that resolve it, with the flag that names the server.
func printEntry(a *cli.App, e InboxEntry, server string) {
	title := 200
	if a.TTY {
		title = max(a.Columns()-len(e.Kind)-2, 1)
	}
	a.Printf("%s  %s\n", story.Paint(e.Kind, story.Doubt, a.Colour), story.Paint(story.Short(e.Title, title), story.Strong, a.Colour))
	where := fmt.Sprintf("saga %s  %s", e.Saga, e.Definition)
	if e.Path != "" {
		where += "  step " + e.Path
	}
	if since := cli.Clock(e.Since.Time); a.TTY && a.Columns() < roomy {
		printText(a, where+", "+cli.Age(time.Since(e.Since.Time))+" ago", 2)
	} else {
		printText(a, where+", since "+since, 2)
	}
	if e.Request != nil {
		verb, object := e.Request.Target()
		printText(a, fmt.Sprintf("sent: %s %s", verb, story.Short(object, 200)), 3)
		printText(a, "key "+e.Key, 1)
	}
	printShown(a, e.Shown)
	for _, s := range e.Covers {
		printText(a, "covers "+s.Path+": "+coveredBriefly(s), 3)
	}
	printText(a, InCommands(e.Detail), 6)
	path := e.Path
	if strings.ContainsAny(path, "[]") { // some shells read brackets as a pattern
		path = "'" + path + "'"
	}
	command := func(parts ...string) {
		if server != "" {
			parts = append(parts, server)
		}
		printCommand(a, parts...)
	}
	switch e.Kind {
	case saga.InboxBudget:
		command("recourse budget", e.Saga, enough(e.Detail))
		command("recourse cancel", e.Saga, `--reason "…"`)
		return
	case saga.InboxSession:
		command("recourse resume", e.Saga, `--reason "…"`)
		command("recourse cancel", e.Saga, `--reason "…"`)
		return
	case saga.InboxApproval:
		approve := []string{"recourse approve", e.Saga, path}
		if len(e.Form) > 0 {
			approve = append(approve, "--data '"+blank(e.Form)+"'")
		}
		command(approve...)
		command("recourse reject", e.Saga, path, `--comment "…"`)
		return
	}
	if e.Path == "" { // it concerns the saga, not a step
		command("recourse resume", e.Saga, `--reason "…"`)
		return
	}
	if e.Kind == saga.InboxExhausted {
		command("recourse resume", e.Saga, `--reason "…"`)
	}
	command("recourse resolve", e.Saga, path, "--outcome "+strings.Join(e.Actions, "|"), `--reason "…"`)
}

// These match the text of a budget's inbox entry: the maximum cost of the step, and the amounts
// spent and reserved.
var (
	lacksMoney  = regexp.MustCompile(`^it may cost (\S+) (\S+); spent (\S+), reserved (\S+) of `)
	lacksTokens = regexp.MustCompile(`^it may use (\d+) tokens; used (\d+), reserved (\d+) of `)
)

// enough returns the smallest budget that the step fits into, in the format of `recourse budget`.
func enough(detail string) string {
	if m := lacksMoney.FindStringSubmatch(detail); m != nil {
		var sum retry.Money
		for _, part := range []string{m[1], m[3], m[4]} {
			amount, err := retry.Total(part, m[2])
			if err != nil {
				return "AMOUNT"
			}
			sum = sum.Add(amount)
		}
		return `"` + sum.String() + `"`
	}
	if m := lacksTokens.FindStringSubmatch(detail); m != nil {
		sum := 0
		for _, part := range m[1:] {
			n, err := strconv.Atoi(part)
			if err != nil {
				return "AMOUNT"
			}
			sum += n
		}
		return fmt.Sprintf("--tokens %d", sum)
	}
	return "AMOUNT"
}

// mostShown is the maximum of listed properties of the content to approve.
const mostShown = 12

// printShown prints the content to approve: an object by its properties, each in a line or two.
func printShown(a *cli.App, doc json.RawMessage) {
	names, values := properties(doc)
	if len(doc) == 0 {
		return
	}
	if len(names) == 0 || len(names) > mostShown {
		printText(a, "shown: "+story.Short(saga.VisibleText(string(doc)), 200), 3)
		return
	}
	for _, name := range names {
		text := string(values[name])
		_ = json.Unmarshal(values[name], &text) // a text without its quotes, other values as written
		printText(a, "shown "+saga.VisibleText(name)+": "+story.Short(saga.VisibleText(text), 200), 3)
	}
}

// coveredBriefly says in a line what a step would send that an approval covers.
func coveredBriefly(s saga.Covered) string {
	text := s.Note
	switch {
	case s.Skipped:
		text = "it does not run"
	case s.Request != nil:
		text = s.Request.String()
		if body := s.Request.Payload(); len(body) > 0 {
			text += " " + string(body)
		}
	}
	if s.If != "" {
		text = "if " + s.If + ": " + text
	}
	return story.Short(saga.VisibleText(text), 300)
}

// blank returns the data of a form, to be filled in: {"limit":…}.
func blank(form json.RawMessage) string {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(form, &schema) // an invalid schema has no properties
	names, _ := properties(schema.Properties)
	// A quote would end the shell's string.
	if len(names) == 0 || len(names) > 4 || strings.Contains(strings.Join(names, ""), "'") {
		return "{…}"
	}
	for i, name := range names {
		quoted, _ := json.Marshal(name)
		names[i] = string(quoted) + ":…"
	}
	return "{" + strings.Join(names, ",") + "}"
}

// properties returns an object's names, in order, and its values; nothing for other values.
func properties(doc json.RawMessage) (names []string, values map[string]json.RawMessage) {
	if json.Unmarshal(doc, &values) != nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(values)), values
}

// printCommand prints a command to type. On a terminal it is split over several lines if it is too
// long.
func printCommand(a *cli.App, parts ...string) {
	line := "  →"
	for _, part := range parts {
		if n := utf8.RuneCountInString(line) + utf8.RuneCountInString(part); a.TTY && n+3 > a.Columns() && line != "  →" {
			a.Printf("%s \\\n", line)
			line = "     "
		}
		line += " " + part
	}
	a.Printf("%s\n", line)
}

// printText prints a text below an entry's head: on a terminal wrapped, with at most this many
// lines.
func printText(a *cli.App, text string, lines int) {
	if !a.TTY {
		a.Printf("  %s\n", story.Short(text, 600))
		return
	}
	a.Printf("%s\n", cli.Wrap(text, "  ", a.Columns(), lines))
}
