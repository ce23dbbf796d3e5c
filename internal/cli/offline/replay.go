package offline

import (
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/internal/cli/export"
	"recourse/internal/cli/remote"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
	"recourse/saga/replay"
)

// journalFile names an exported journal and the definition for it.
type journalFile struct {
	definition.ActionFlags
	File       string `arg:"" optional:"" help:"An exported journal: NDJSON, an array, or a page of the API; - is stdin."`
	Saga       string `placeholder:"ID" help:"The saga's id, if the file does not contain it. The hash chain starts with it."`
	Definition string `short:"d" placeholder:"FILE" help:"The definition of the saga, as it was published."`
}

// read reads the file.
func (f journalFile) read(a *cli.App) (export.Journal, *saga.Definition, error) {
	src, err := a.Open(f.File)
	if err != nil {
		return export.Journal{}, nil, err
	}
	defer src.Close()
	ex, err := export.Read(src)
	if err != nil {
		return ex, nil, cli.Exit(cli.Usage, fmt.Errorf("%s: %w", f.File, err))
	}
	if f.Saga != "" {
		if ex.Saga, err = uuid.FromString(f.Saga); err != nil {
			return ex, nil, cli.Exit(cli.Usage, fmt.Errorf("--saga %s is not an id", f.Saga))
		}
	}
	if f.Definition == "" {
		return ex, nil, nil
	}
	actions, err := f.ReadActions(a)
	if err != nil {
		return ex, nil, err
	}
	def, err := definition.Compile(a, f.Definition, actions)
	return ex, def, err
}

// pinned checks that def is the saga's definition.
func pinned(ex export.Journal, def *saga.Definition) error {
	d, err := history.Started(ex.Records)
	if err != nil {
		return err
	}
	if d.SHA256 != def.SHA256 {
		return cli.Exit(cli.Usage, fmt.Errorf("--definition is not the saga's definition: that is %s v%d with SHA-256 %s, and this one has %s", d.Definition, d.Version, d.SHA256, def.SHA256))
	}
	return nil
}

// Replay is `recourse replay`.
type Replay struct {
	journalFile
	remote.ServerFlags
	cli.OutputFlag
	remote.ReplayFlags
	At      int64  `placeholder:"SEQ" help:"Stop after this record."`
	Against string `placeholder:"FILE" help:"Try this changed definition on the journal, or without a journal on the sagas of a server that have ended. Nothing is sent."`
}

// Run prints the journal as a story, and the next decision; with --against, how a changed
// definition would have run.
func (c *Replay) Run(a *cli.App) error {
	switch {
	case c.Against != "" && c.At != 0:
		return cli.Exit(cli.Usage, errors.New("--at stops the story of a journal; --against replays all of it: give one of them"))
	case c.Against != "" && c.File == "" && (c.Saga != "" || c.Definition != "" || len(c.Actions) > 0):
		return cli.Exit(cli.Usage, errors.New("--saga, --definition and --actions are for an exported journal: name its file, too, or select sagas of a server with --sagas"))
	case c.Against != "" && c.File != "" && c.Sagas != "":
		return cli.Exit(cli.Usage, errors.New("--sagas selects sagas of a server: leave it out, or the exported journal"))
	case c.Against != "" && c.File == "":
		return c.ReplayFlags.Replay(a, c.ServerFlags, c.OutputFlag, c.Against)
	case c.Against != "":
		return c.against(a)
	case c.File == "":
		return cli.Exit(cli.Usage, errors.New("name an exported journal, or give --against FILE to replay sagas of a server"))
	case c.Sagas != "" || len(c.RefuseOn) > 0:
		return cli.Exit(cli.Usage, errors.New("--sagas and --refuse-on are for --against FILE, which names the changed definition: give it, too"))
	}
	return c.story(a)
}

// against replays the exported journal against the changed definition.
func (c *Replay) against(a *cli.App) error {
	if c.Definition != "" {
		return cli.Exit(cli.Usage, errors.New("give --against or --definition, not both"))
	}
	f := c.journalFile
	f.Definition = c.Against
	ex, def, err := f.read(a)
	if err != nil {
		return err
	}
	res, err := replay.Against(def, ex.Saga, ex.Records, replay.Options{})
	if err != nil {
		return err
	}
	r := []remote.Replayed{{Saga: ex.Saga.String(), Result: res}}
	return c.ReplayFlags.Report(a, c.OutputFlag, r)
}

// state is a journal, and the state of the saga after it if its definition is known.
type state struct {
	Records  []journal.Record `json:"records"`
	Status   saga.Status      `json:"status,omitempty"`
	Next     []string         `json:"next,omitempty"`
	InFlight []string         `json:"in_flight,omitempty"`
}

// story prints the journal.
func (c *Replay) story(a *cli.App) error {
	ex, def, err := c.read(a)
	if err != nil {
		return err
	}
	if c.At > 0 && c.At < int64(len(ex.Records)) {
		ex.Records = ex.Records[:c.At]
	}
	if !c.Machine() {
		if err := view.PrintStory(a, def, ex.Records); err != nil {
			return err
		}
	}
	s, err := stateAfter(ex, def)
	switch {
	case err != nil:
		return err
	case c.Machine():
		return a.Encode(s)
	case def == nil:
		a.Note("give --definition FILE to see what the saga decides next")
		return nil
	}
	a.Printf("\nStatus after record %d: %s\n", len(s.Records), view.Status(a, s.Status))
	for _, text := range s.Next {
		a.Printf("Next: %s\n", story.Harmless(text))
	}
	for _, text := range s.InFlight {
		a.Printf("In flight: %s\n", text)
	}
	return nil
}

// stateAfter returns the state after the records; without a definition only the records.
func stateAfter(ex export.Journal, def *saga.Definition) (s state, err error) {
	if s.Records = ex.Records; def == nil {
		return s, nil
	}
	if err := pinned(ex, def); err != nil {
		return s, err
	}
	m, err := machine.Replay(def, ex.Saga, ex.Records)
	if err != nil {
		return s, fmt.Errorf("the journal does not replay: %w", err)
	}
	s.Status = m.Status()
	for _, d := range m.Decide() {
		s.Next = append(s.Next, decision(d))
	}
	for _, o := range m.InFlight() {
		s.InFlight = append(s.InFlight, fmt.Sprintf("attempt %d of %s (%s)", o.Number, o.Path, o.Way))
	}
	return s, nil
}

// decision describes a decision.
func decision(d machine.Decision) string {
	switch d := d.(type) {
	case machine.Dispatch:
		return fmt.Sprintf("send %s for %s (%s), attempt %d, key %s", &d.Send.Request, d.Send.Path, d.Send.Way, d.Send.Attempt, d.Send.Key)
	case machine.Write:
		return fmt.Sprintf("write %s %s", d.Record.Kind, d.Record.Path)
	case machine.WakeAt:
		return fmt.Sprintf("wake %s at %s", d.Woke.Path, d.At.UTC().Format(journal.TimeFormat))
	case machine.Escalate:
		return fmt.Sprintf("wait for a person: %s", d.Entry.Title)
	}
	return "unknown"
}
