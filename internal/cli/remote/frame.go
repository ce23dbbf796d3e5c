package remote

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/saga"
)

// headLines is the number of lines besides the sagas, including the last line of the screen.
const headLines = 11

// frame renders an overview as lines of a width.
func (o *overview) frame(columns int, now time.Time) []view.Row {
	var rows []view.Row
	add := func(name, text string, tone story.Tone) {
		rows = append(rows, view.Row{Text: story.Short(fmt.Sprintf("%-8s%s", name, text), columns), Tone: tone})
	}
	at := now.Local().Format("15:04:05")
	title := "recourse  " + o.client.URL
	if fill := columns - utf8.RuneCountInString(title) - len(at); columns <= 200 && fill > 1 {
		title += strings.Repeat(" ", fill) + at
	}
	rows = append(rows, view.Row{Text: story.Short(title, columns), Tone: story.Strong})
	add("sagas", o.counted(slices.Concat(UsualStatuses, UrgentStatuses)), story.Plain)
	add("ended", o.counted(EndedStatuses), story.Plain)
	if rate := o.rate(); rate != "" {
		add("rate", rate, story.Plain)
	}
	inbox, tone := o.inbox(now)
	add("inbox", inbox, tone)
	if o.stats.OldestDue != nil {
		if late := now.Sub(o.stats.OldestDue.Time); late > 10*time.Second {
			add("overdue", cli.Age(late)+": due sagas wait for a node", story.Bad)
		}
	}
	if n := o.stats.Quarantined; n > 0 {
		add("resting", fmt.Sprintf("%s that no node can run: see %s", cli.Count(int(n), "saga"), o.inboxCommand), story.Bad)
	}
	add("nodes", o.nodes(now), story.Plain)
	add("cost", o.spent(), story.Plain)
	if o.trouble != "" {
		rows = append(rows, view.Row{Text: story.Short(o.trouble, columns), Tone: story.Bad})
	}
	rows = append(rows, view.Row{})
	return append(rows, o.list(columns, now)...)
}

// counted lists counts by status.
func (o *overview) counted(statuses []string) string {
	parts := make([]string, len(statuses))
	for i, s := range statuses {
		parts[i] = fmt.Sprintf("%s %d", s, o.stats.Sagas[s])
	}
	return strings.Join(parts, "  ")
}

// rate describes how many sagas start and end per second; "" for the first frame.
func (o *overview) rate() string {
	if len(o.totals) < 2 {
		return ""
	}
	from, to := o.totals[0], o.totals[len(o.totals)-1]
	ms := max(to.at.Sub(from.at).Milliseconds(), 1)
	per := func(n int64) string { // in tenths; deleted sagas can make it negative
		tenths := max(n, 0) * 10_000 / ms
		return fmt.Sprintf("%d.%d/s", tenths/10, tenths%10)
	}
	return fmt.Sprintf("started %s  ended %s", per(to.started-from.started), per(to.ended-from.ended))
}

// inbox describes the items that need a person, with their age.
func (o *overview) inbox(now time.Time) (string, story.Tone) {
	var parts []string
	for _, kind := range []string{saga.InboxInDoubt, saga.InboxApproval, saga.InboxStuck, saga.InboxHeld, saga.InboxBudget, saga.InboxExhausted, saga.InboxSession, saga.InboxRepeat} {
		n := o.stats.Inbox[kind]
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%s %d", kind, n)
		if since, ok := o.oldest[kind]; ok {
			text += " (oldest " + cli.Age(now.Sub(since)) + ")"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "empty", story.Plain
	}
	return strings.Join(parts, "  "), story.Doubt
}

// nodes lists the nodes with the number of their sagas.
func (o *overview) nodes(now time.Time) string {
	parts := []string{fmt.Sprint(len(o.stats.Nodes))}
	for _, n := range o.stats.Nodes {
		text := fmt.Sprintf("%s %s", n.Node[:min(len(n.Node), 8)], cli.Count(int(n.Sagas), "saga"))
		if n.Until != nil && n.Until.Before(now) {
			text += " (its lease is over)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}

// spent describes today's costs.
func (o *overview) spent() string {
	var parts []string
	for _, m := range o.cost {
		parts = append(parts, m.String())
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	of := cli.Count(o.priced, "saga")
	if o.more {
		of = "the newest " + of
	}
	return fmt.Sprintf("today %s (%s)", strings.Join(parts, ", "), of)
}

// list is the table of sagas in progress.
func (o *overview) list(columns int, now time.Time) []view.Row {
	if len(o.sagas) == 0 {
		return []view.Row{{Text: "Nothing is in progress.", Tone: story.Dimmed}}
	}
	cells := make([][]string, len(o.sagas))
	for i, v := range o.sagas {
		cells[i] = []string{v.ID, v.Definition, string(v.Status), cli.Age(now.Sub(v.CreatedAt.Time)), o.steps[v.ID].text}
	}
	lines := cli.FitTable([]cli.Column{{Head: "SAGA"}, {Head: "DEFINITION", Least: 8}, {Head: "STATUS"}, {Head: "AGE"}, {Head: "STEP", Least: 8}}, cells, columns)
	rows := []view.Row{{Text: lines[0], Tone: story.Dimmed}}
	for i, line := range lines[1:] {
		rows = append(rows, view.Row{Text: line, Tone: view.Tone(o.sagas[i].Status)})
	}
	return rows
}
