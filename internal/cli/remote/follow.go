package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/export"
	"recourse/internal/cli/view"
	"recourse/journal"
	"recourse/saga/machine"
)

// follow shows a saga of a server live, until its end.
func (c *Show) follow(a *cli.App, cl *Client, v machine.View) error {
	id, err := uuid.FromString(v.ID)
	if err != nil {
		return fmt.Errorf("the server's response cannot be read: %w", err)
	}
	def := cl.definition(v.Definition, v.Version)
	w := &view.Saga{Def: def, ID: id}
	if def != nil {
		w.Machine = machine.New(def, id)
	}
	show := view.New(a, def, c.Machine())
	if t, ok := show.(*view.Tree); ok {
		t.Now = cl.clock()
	}
	records, lost, ended := make(chan journal.Record, 256), make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- cl.stream(c.Saga, true, func(raw []byte) error {
			var r journal.Record
			if err := json.Unmarshal(raw, &r); err != nil {
				return fmt.Errorf("%w: %w", export.ErrFormat, err)
			}
			select {
			case records <- r:
				return nil
			case <-a.Ctx.Done():
				return cli.Exit(cli.Failed, nil)
			}
		}, func(text string) {
			select {
			case lost <- text:
			case <-a.Ctx.Done():
			}
		})
	}()
	if err := follow(w, show, records, lost, ended); err != nil {
		return err
	}
	r, err := cl.Get(SagaPath(c.Saga), &v)
	if err != nil {
		return err
	}
	if c.Machine() {
		if err := a.Raw(r.Body); err != nil {
			return err
		}
	}
	return view.Outcome(v.ID, v.Status, c.Command(a, "show "+v.ID))
}

// follow adds and shows records until their stream has ended.
func follow(w *view.Saga, show view.Viewer, records <-chan journal.Record, lost <-chan string, ended <-chan error) error {
	defer show.End(w)
	every := time.NewTicker(view.Redraw)
	defer every.Stop()
	take := func(r journal.Record) error {
		if w.Machine == nil {
			show.Update(w, []journal.Record{r})
			return nil
		}
		if err := w.Add([]journal.Record{r}); err != nil {
			return fmt.Errorf("the journal cannot be followed, is the server of another version? %w", err)
		}
		show.Update(w, []journal.Record{r})
		return nil
	}
	for {
		select {
		case r := <-records:
			if err := take(r); err != nil {
				return err
			}
		case text := <-lost:
			show.Say(w, text)
		case <-every.C:
			show.Tick(w)
		case err := <-ended:
			for len(records) > 0 { // records that arrived before the end
				if err := take(<-records); err != nil {
					return err
				}
			}
			return err
		}
	}
}

// sameClock is the maximum apparent difference of equal clocks: the Date header has whole seconds.
const sameClock = 2 * time.Second

// clock returns the server's clock, from the Date header of a response. It is this machine's own if
// they agree, or if there is no header.
func (c *Client) clock() func() time.Time {
	resp, err := c.open(Call{Method: http.MethodGet, Path: "/healthz"})
	if err != nil {
		return time.Now
	}
	resp.Body.Close()
	there, err := http.ParseTime(resp.Header.Get("Date"))
	ahead := time.Until(there)
	if err != nil || ahead.Abs() < sameClock {
		return time.Now
	}
	return func() time.Time { return time.Now().Add(ahead) }
}
