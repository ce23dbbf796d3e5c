package completion

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/saga/machine"
)

// predictor completes with data from the server that the line or the environment names.
type predictor struct {
	app  *cli.App
	ctx  context.Context
	done []string // the words before the last one
	last string   // what has been typed of it
}

func (p *predictor) client() *remote.Client {
	f := remote.ServerFlags{Server: "http://127.0.0.1:8080", APIKey: p.app.Variables["RECOURSE_API_KEY"]}
	if s := p.app.Variables["RECOURSE_SERVER"]; s != "" {
		f.Server = s
	}
	for i, word := range p.done {
		if i+1 < len(p.done) && word == "--server" {
			f.Server = p.done[i+1]
		}
	}
	c, err := f.Client(p.ctx)
	if err != nil {
		return nil
	}
	return c
}

// completedSagas is the maximum of offered sagas, newest first.
const completedSagas = 100

func (p *predictor) sagas() []string { return p.ids(url.Values{}) }

// live returns ids of live sagas.
func (p *predictor) live() []string {
	return p.ids(url.Values{"status": slices.Concat(remote.UrgentStatuses, remote.UsualStatuses)})
}

func (p *predictor) ids(q url.Values) []string {
	if p.last != "" {
		q.Set("q", p.last)
	}
	c := p.client()
	if c == nil {
		return nil
	}
	list, err := remote.ReadAll[machine.View](c, "/v1/sagas", q, completedSagas)
	if err != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, v := range list {
		ids[i] = v.ID
	}
	return ids
}

func (p *predictor) definitions() []string {
	c := p.client()
	if c == nil {
		return nil
	}
	list, err := remote.ReadAll[remote.Document](c, "/v1/definitions", url.Values{}, 0)
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name
	}
	return names
}

// steps returns the steps that need a person, of the saga before on the line.
func (p *predictor) steps() []string {
	c := p.client()
	if c == nil || len(p.done) == 0 {
		return nil
	}
	list, err := remote.ReadAll[remote.InboxEntry](c, "/v1/inbox", url.Values{"saga": {p.done[len(p.done)-1]}}, 0)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, e.Path)
	}
	return paths
}

// statusList completes a list of statuses.
func (p *predictor) statusList() []string {
	before := p.last[:strings.LastIndexByte(p.last, ',')+1]
	var list []string
	for _, s := range slices.Concat(remote.UrgentStatuses, remote.UsualStatuses, remote.EndedStatuses) {
		list = append(list, fmt.Sprint(before, s))
	}
	return list
}
