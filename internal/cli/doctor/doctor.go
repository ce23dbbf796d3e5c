// Package doctor has the command that checks the configuration of a server, its database and what
// it reaches.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/view"
	"recourse/internal/egress"
	"recourse/internal/secrets"
	"recourse/internal/story"
)

// Command accepts the flags of `serve`, and checks whether `serve` would work.
type Command struct {
	config.ServeFlags
	cli.OutputFlag
	Server string `env:"RECOURSE_SERVER" placeholder:"URL" help:"Check the server, too."`
	APIKey string `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"The API key, if the server requires one. Prefer the environment variable."`
}

// Results of a check.
const (
	fine   = "ok"
	unwise = "warning" // it works, with a risk
	broken = "error"
)

// checkup is a finding. It never contains a secret's value.
type checkup struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"` // what to do about it
}

// doctor runs the checks.
type doctor struct {
	app     *cli.App
	cmd     *Command
	file    *config.File
	secrets *secrets.Source // nil if they cannot be read
	calls   egress.Config
	found   []checkup

	free func(dir string) (bytes uint64, ok bool) // free space; ok is false if it is unknown
	now  func() time.Time
}

// answerTime is the timeout of each remote check.
const answerTime = 5 * time.Second

// Run checks everything, and fails if something is wrong.
func (c *Command) Run(a *cli.App, file *config.File) error {
	d := &doctor{app: a, cmd: c, file: file, free: freeBytes, now: time.Now}
	for _, check := range []func(context.Context){d.configuration, d.environment, d.egress, d.database, d.state, d.archive, d.sinks, d.models, d.tools, d.issuer, d.server, d.traces} {
		check(a.Ctx)
		if a.Ctx.Err() != nil {
			return cli.Exit(cli.Failed, errors.New("interrupted"))
		}
	}
	bad := 0
	for _, f := range d.found {
		if f.Result == broken {
			bad++
		}
	}
	if c.Machine() {
		if err := a.Encode(struct {
			OK     bool      `json:"ok"`
			Checks []checkup `json:"checks"`
		}{bad == 0, d.found}); err != nil {
			return err
		}
	} else {
		d.print()
	}
	if bad > 0 {
		return cli.Exit(cli.Failed, fmt.Errorf("%s wrong", cli.Count(bad, "thing")+map[bool]string{true: " is", false: " are"}[bad == 1]))
	}
	return nil
}

// print writes a line for each finding; on a terminal broken between words.
func (d *doctor) print() {
	names := 0
	for _, f := range d.found {
		names = max(names, len(f.Check))
	}
	marks := map[string]view.Row{fine: {Text: "✓", Tone: story.Good}, unwise: {Text: "!", Tone: story.Doubt}, broken: {Text: "✗", Tone: story.Bad}}
	for _, f := range d.found {
		text := strings.TrimSuffix(f.Text+": "+f.Fix, ": ")
		if d.app.TTY {
			indent := strings.Repeat(" ", names+4)
			text = strings.TrimLeft(cli.Wrap(text, indent, d.app.Columns(), 8), " ")
		}
		d.app.Printf("%s %-*s  %s\n", story.Paint(marks[f.Result].Text, marks[f.Result].Tone, d.app.Colour), names, f.Check, text)
	}
}

func (d *doctor) ok(check, format string, args ...any) {
	d.add(checkup{Check: check, Result: fine, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, text, fix string) {
	d.add(checkup{Check: check, Result: unwise, Text: text, Fix: fix})
}

func (d *doctor) wrong(check, text, fix string) {
	d.add(checkup{Check: check, Result: broken, Text: text, Fix: fix})
}

// failed adds an error whose text already says how to fix it.
func (d *doctor) failed(check string, err error) { d.wrong(check, err.Error(), "") }

// add adds a finding, in one line and without secrets.
func (d *doctor) add(f checkup) {
	clean := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if d.secrets != nil {
			s = d.secrets.Redact(s)
		}
		return s
	}
	f.Text, f.Fix = clean(f.Text), clean(f.Fix)
	d.found = append(d.found, f)
}
