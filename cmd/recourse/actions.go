package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"recourse/internal/cli"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// actionFlags names the actions that a definition in a file uses.
type actionFlags struct {
	Actions []string `sep:"none" placeholder:"FILE|DIR" help:"The actions that the definition uses: files, or a directory, in which only actions are read; repeatable."`
}

// actionSet finds actions by the names in definitions. An action from a file stands for each of its
// versions.
type actionSet struct {
	list  []*saga.Action
	files map[string]string                                    // texts by the action's name
	other func(name string, version int) (*saga.Action, error) // finds actions without a file; may be nil
}

// actions reads the files that the flag names.
func (f actionFlags) actions(a *cli.App) (*actionSet, error) {
	set := &actionSet{}
	if len(f.Actions) == 0 {
		return set, nil
	}
	files, err := definitionFiles(f.Actions)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		src, err := a.ReadSource(file)
		if err != nil {
			return nil, err
		}
		if !dsl.IsAction(src) {
			continue
		}
		if err := set.read(file, src); err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("an action has errors:\n%w", err))
		}
	}
	return set, nil
}

// read adds the action in a file. Errors: *dsl.Errors, or that another file has the action already.
func (s *actionSet) read(file string, src []byte) error {
	act, errs := dsl.ParseAction(file, src, dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		return errs
	}
	if other, twice := s.files[act.Name]; twice {
		return fmt.Errorf("%s: action %s is in %s, too: keep one", file, act.Name, other)
	}
	if s.files == nil {
		s.files = make(map[string]string)
	}
	s.files[act.Name] = file
	s.list = append(s.list, act)
	return nil
}

// find is dsl.Options.Actions.
func (s *actionSet) find(name string, version int) (*saga.Action, error) {
	for _, known := range s.list {
		if known.Name == name {
			act := *known
			act.Version = version
			return &act, nil
		}
	}
	if s.other != nil {
		return s.other(name, version)
	}
	return nil, fmt.Errorf("there is no action %s here: give its file, or its directory, with --actions", name)
}

// action reads an action from the server and compiles it; version 0 is the newest.
func (c *client) action(name string, version int) (*saga.Action, error) {
	path := "/v1/actions/" + url.PathEscape(name)
	if version > 0 {
		path += "/versions/" + strconv.Itoa(version)
	}
	var d document
	_, err := c.get(path, &d)
	var p *problem
	switch {
	case errors.As(err, &p) && p.Status == http.StatusNotFound && version > 0:
		return nil, fmt.Errorf("action %s has no version %d on the server", name, version)
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
		return nil, fmt.Errorf("there is no action %s, neither in the files nor on the server", name)
	case err != nil:
		return nil, err
	}
	act, errs := dsl.ParseAction(name, []byte(d.Source), dsl.Options{Kinds: kinds.All(), Stored: true})
	if errs != nil {
		return nil, errs
	}
	act.Version, _ = strconv.Atoi(strings.TrimPrefix(d.Version, "v"))
	return act, nil
}
