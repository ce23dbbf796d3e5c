package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/posener/complete"

	"recourse/saga"
)

// predictor completes with data from the server that the line or the environment names.
type predictor struct {
	app *app
	ctx context.Context
}

func (p *predictor) client(args complete.Args) *client {
	f := serverFlags{Server: "http://127.0.0.1:8080", APIKey: p.app.env["RECOURSE_API_KEY"]}
	if s := p.app.env["RECOURSE_SERVER"]; s != "" {
		f.Server = s
	}
	for i, word := range args.Completed {
		if i+1 < len(args.Completed) && word == "--server" {
			f.Server = args.Completed[i+1]
		}
	}
	c, err := f.client(p.ctx)
	if err != nil {
		return nil
	}
	return c
}

// completedSagas is the maximum of offered sagas, newest first.
const completedSagas = 100

func (p *predictor) sagas(args complete.Args) []string { return p.ids(args, url.Values{}) }

// live returns ids of live sagas.
func (p *predictor) live(args complete.Args) []string {
	return p.ids(args, url.Values{"status": slices.Concat(urgent, usual)})
}

func (p *predictor) ids(args complete.Args, q url.Values) []string {
	if args.Last != "" {
		q.Set("q", args.Last)
	}
	c := p.client(args)
	if c == nil {
		return nil
	}
	list, err := pages[saga.View](c, "/v1/sagas", q, completedSagas)
	if err != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, v := range list {
		ids[i] = v.ID
	}
	return ids
}

func (p *predictor) definitions(args complete.Args) []string {
	c := p.client(args)
	if c == nil {
		return nil
	}
	list, err := pages[document](c, "/v1/definitions", url.Values{}, 0)
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
func (p *predictor) steps(args complete.Args) []string {
	c := p.client(args)
	if c == nil || args.LastCompleted == "" {
		return nil
	}
	list, err := pages[inboxEntry](c, "/v1/inbox", url.Values{"saga": {args.LastCompleted}}, 0)
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
func statusList(args complete.Args) []string {
	before := args.Last[:strings.LastIndexByte(args.Last, ',')+1]
	var list []string
	for _, s := range slices.Concat(urgent, usual, over) {
		list = append(list, fmt.Sprint(before, s))
	}
	return list
}
