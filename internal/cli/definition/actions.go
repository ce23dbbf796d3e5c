// Package definition reads definitions and actions from files, compiles them, and reads what a saga
// of theirs starts with.
package definition

import (
	"fmt"

	"recourse/internal/cli"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// ActionFlags names the actions that a definition in a file uses.
type ActionFlags struct {
	Actions []string `sep:"none" placeholder:"FILE|DIR" help:"The actions that the definition uses: files, or a directory, in which only actions are read; repeatable."`
}

// Actions finds actions by the names in definitions. An action from a file stands for each of its
// versions.
type Actions struct {
	List  []*saga.Action
	files map[string]string                                    // texts by the action's name
	Other func(name string, version int) (*saga.Action, error) // finds actions without a file; may be nil
}

// ReadActions reads the files that the flag names.
func (f ActionFlags) ReadActions(a *cli.App) (*Actions, error) {
	set := &Actions{}
	if len(f.Actions) == 0 {
		return set, nil
	}
	files, err := Files(f.Actions)
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
		if err := set.Read(file, src); err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("an action has errors:\n%w", err))
		}
	}
	return set, nil
}

// Read adds the action in a file. Errors: *dsl.Errors, or that another file has the action already.
func (s *Actions) Read(file string, src []byte) error {
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
	s.List = append(s.List, act)
	return nil
}

// Find is dsl.Options.Actions.
func (s *Actions) Find(name string, version int) (*saga.Action, error) {
	for _, known := range s.List {
		if known.Name == name {
			act := *known
			act.Version = version
			return &act, nil
		}
	}
	if s.Other != nil {
		return s.Other(name, version)
	}
	return nil, fmt.Errorf("there is no action %s here: give its file, or its directory, with --actions", name)
}
