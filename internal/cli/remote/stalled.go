package remote

import (
	"net/url"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/saga"
)

// Stalled is `recourse stalled`.
type Stalled struct {
	ServerFlags
	cli.OutputFlag
	Kind string `placeholder:"KIND" help:"Only this kind, such as unclaimed or no_worker."`
	Saga string `placeholder:"ID" help:"Only entries of this saga."`
}

// stall is a stalled saga or step, as the API returns it.
type stall struct {
	Saga       string    `json:"saga"`
	Definition string    `json:"definition"`
	Version    string    `json:"version"`
	Kind       string    `json:"kind"`
	Path       string    `json:"path"`
	Since      saga.Time `json:"since"`
	Why        string    `json:"why"`
}

// Run lists stalled sagas and steps.
func (c *Stalled) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	q := url.Values{}
	for name, value := range map[string]string{"kind": c.Kind, "saga": c.Saga} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if c.Machine() {
		return listRaw(a, cl, "/v1/stalled", q, 0)
	}
	list, err := ReadAll[stall](cl, "/v1/stalled", q, 0)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.Printf("Nothing is stalled.\n")
	}
	for _, s := range list {
		step := ""
		if s.Path != "" {
			step = ", step " + s.Path
		}
		a.Printf("%s  saga %s  %s %s%s, since %s\n", story.Paint(s.Kind, story.Doubt, a.Colour), s.Saga, s.Definition, s.Version, step, cli.Clock(s.Since.Time))
		a.Printf("  %s\n", s.Why)
	}
	return nil
}
