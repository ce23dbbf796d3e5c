package remote

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/replay"
)

// Definitions is `recourse definitions`.
type Definitions struct {
	Apply applyDefinitions `cmd:"" help:"Publish the actions and definitions in directories or files. Unchanged ones get no new version."`
	List  listDefinitions  `cmd:"" help:"List the newest version of each definition."`
}

type applyDefinitions struct {
	ServerFlags
	cli.OutputFlag
	Replay   int      `placeholder:"N" help:"Before publishing, replay the N newest sagas of each definition that have ended."`
	RefuseOn []string `placeholder:"VERDICT" help:"With --replay: publish nothing if a saga gets one of these verdicts: other-request, never-answered, other-end, other-cost. Default: other-end."`
	Paths    []string `arg:"" name:"path" help:"A directory of .yaml, .yml and .json files, or files."`
}

// Document is a published version, as the API returns it.
type Document struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	SHA256    string            `json:"sha256"`
	CreatedAt saga.Time         `json:"created_at"`
	Warnings  []saga.Finding    `json:"warnings"`
	Actions   map[string]string `json:"actions,omitempty"`
	Archived  bool              `json:"archived,omitempty"`
	Revived   bool              `json:"revived,omitempty"` // it was archived until it was published now
	Source    string            `json:"source,omitempty"`
}

// Applied is the result for one file.
type Applied struct {
	File    string `json:"file"`
	Kind    string `json:"kind"` // action, definition
	Name    string `json:"name"`
	Version string `json:"version"`
	Changed bool   `json:"changed"`           // it is a new version
	Revived bool   `json:"revived,omitempty"` // it was archived
}

// publishing is a file to publish.
type publishing struct {
	file, kind, name string
	src              []byte
	runs             []saga.Mention // the definitions that it runs
	together         bool           // it uses actions, or runs definitions, of the other files
	pinned           bool           // it uses actions without naming a version
}

// Run checks all files first, so that an error in one of them publishes none.
func (c *applyDefinitions) Run(a *cli.App) error {
	if c.Replay < 0 || c.Replay == 0 && len(c.RefuseOn) > 0 {
		return cli.Exit(cli.Usage, errors.New("--refuse-on says which results of a replay prevent the publishing: say with --replay how many sagas of each definition to replay; nothing was published"))
	}
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	files, err := definition.Files(c.Paths)
	if err != nil {
		return err
	}
	todo, err := checkFiles(a, cl, files)
	if err != nil {
		return err
	}
	if err := checkOnServer(a, cl, todo); err != nil {
		return err
	}
	if c.Replay > 0 {
		refused, err := verdicts(c.refuseOn())
		if err != nil {
			return err
		}
		if err := refuseDifferent(a, cl, todo, c.Replay, refused); err != nil {
			return err
		}
	}
	list, failed := c.publish(a, cl, todo)
	if c.Machine() { // a script gets what is published, also if the rest is not
		if err := a.Encode(list); err != nil {
			return err
		}
	}
	return failed
}

// publish publishes the files until one fails, and returns the results of those before it.
func (c *applyDefinitions) publish(a *cli.App, cl *Client, todo []publishing) ([]Applied, error) {
	list := make([]Applied, 0, len(todo))
	progress := a.Progress("published", len(todo))
	defer progress.End()
	for i, p := range todo {
		progress.At(i)
		d, created, err := Publish(cl, p.kind, p.name, p.src)
		progress.End()
		if err != nil {
			return list, fmt.Errorf("%s: %w", p.file, err)
		}
		for _, w := range d.Warnings { // the server's own: it knows the prices, the sinks and the secrets
			if !p.runsLater(w, todo[i+1:]) {
				a.Note("%s:%d:%d: warning: %s: %s", p.file, w.Line, w.Column, w.Code, w.Detail)
			}
		}
		list = append(list, Applied{File: p.file, Kind: p.kind, Name: d.Name, Version: d.Version, Changed: created, Revived: d.Revived})
		if !c.Machine() {
			state, name := "unchanged", d.Name
			switch {
			case created:
				state = "published"
			case d.Revived:
				state = "revived"
			}
			if p.kind == "action" {
				name = "action " + name
			}
			a.Printf("%s  %s %s %s\n", p.file, name, d.Version, state)
		}
	}
	return list, nil
}

func (c *applyDefinitions) refuseOn() []string {
	if len(c.RefuseOn) == 0 {
		return []string{string(replay.OtherEnd)}
	}
	return c.RefuseOn
}

// runsLater reports whether a warning says that the server lacks a definition that is among the
// rest to publish.
func (p publishing) runsLater(w saga.Finding, rest []publishing) bool {
	if w.Code != "unknown-definition" {
		return false
	}
	return slices.ContainsFunc(p.runs, func(run saga.Mention) bool {
		name, version, _ := saga.RunTarget(run.Name)
		return run.At.Pointer == w.Pointer && version == 0 &&
			slices.ContainsFunc(rest, func(o publishing) bool { return o.kind == "definition" && o.name == name })
	})
}

// checkFiles compiles all files and sorts them for publishing: actions first, since definitions use
// them, and definitions after those that they run.
func checkFiles(a *cli.App, cl *Client, files []string) ([]publishing, error) {
	actions, uses := &definition.Actions{Other: cl.action}, false
	find := func(name string, version int) (*saga.Action, error) {
		if version > 0 { // the server has its text
			if act, err := cl.action(name, version); err == nil {
				return act, nil
			}
		}
		uses = uses || slices.ContainsFunc(actions.List, func(act *saga.Action) bool { return act.Name == name })
		return actions.Find(name, version)
	}
	var acts, defs []publishing
	progress := a.Progress("checked", len(files))
	defer progress.End()
	bad := false
	report := func(err error) {
		progress.End()
		a.Note("%v", err)
		bad = true
	}
	for _, f := range files {
		src, err := a.ReadSource(f)
		if err != nil {
			return nil, err
		}
		if !dsl.IsAction(src) {
			defs = append(defs, publishing{file: f, kind: "definition", src: src})
		} else if err := actions.Read(f, src); err != nil {
			report(err)
		} else {
			act := actions.List[len(actions.List)-1]
			acts = append(acts, publishing{file: f, kind: "action", name: act.Name, src: src})
		}
	}
	names, sources := make([]string, len(defs)), make([][]byte, len(defs))
	for i, d := range defs {
		names[i], sources[i] = d.file, d.src
	}
	o := dsl.Options{Kinds: kinds.All(), Actions: find}
	children := definition.ReadChildren(names, sources, o)
	children.Other = cl.child()
	o.Children = children.Find
	for i := range defs {
		progress.At(len(files) - len(defs) + i)
		uses = false
		def, errs := dsl.Parse(defs[i].file, defs[i].src, o)
		if errs != nil {
			report(errs)
			continue
		}
		defs[i].name, defs[i].runs, defs[i].together, defs[i].pinned = def.Name, def.Runs, uses, len(def.Pins) > 0
		// Each would become a version, and the last one the newest, again with each run.
		if j := slices.IndexFunc(defs[:i], func(o publishing) bool { return o.name == def.Name }); j >= 0 && !bytes.Equal(defs[j].src, defs[i].src) {
			report(fmt.Errorf("%s: definition %s is in %s, too: keep one", defs[i].file, def.Name, defs[j].file))
		}
	}
	if bad {
		return nil, errUnfit()
	}
	for i := range defs {
		defs[i].together = defs[i].together || slices.ContainsFunc(defs[i].runs, func(run saga.Mention) bool {
			name, _, _ := saga.RunTarget(run.Name)
			return slices.ContainsFunc(defs, func(o publishing) bool { return o.name == name })
		})
	}
	return append(acts, childrenFirst(defs)...), nil
}

// childrenFirst sorts definitions so that each comes after those that it runs; in a circle, the
// first comes last. Otherwise it keeps the order.
func childrenFirst(defs []publishing) []publishing {
	byName, seen := make(map[string]publishing, len(defs)), make(map[string]bool, len(defs))
	for _, d := range defs {
		byName[d.name] = d
	}
	out := make([]publishing, 0, len(defs))
	var add func(publishing)
	add = func(d publishing) {
		if seen[d.file] {
			return
		}
		seen[d.file] = true
		for _, run := range d.runs {
			name, _, _ := saga.RunTarget(run.Name)
			if child, ok := byName[name]; ok {
				add(child)
			}
		}
		out = append(out, d)
	}
	for _, d := range defs {
		add(d)
	}
	return out
}

// child returns a dsl.Options.Children that asks the server once for each definition. As on the
// server, an archived definition has no newest version.
func (c *Client) child() func(name string, version int) *saga.Definition {
	found := make(map[string]*saga.Definition)
	return func(name string, version int) *saga.Definition {
		path := "/v1/definitions/" + url.PathEscape(name)
		if version > 0 {
			path += "/versions/v" + strconv.Itoa(version)
		}
		def, known := found[path]
		if !known {
			var d Document
			if _, err := c.Get(path, &d); err == nil && (version > 0 || !d.Archived) {
				def = c.compiled(d)
			}
			found[path] = def
		}
		return def
	}
}

// Publish publishes a definition or an action.
func Publish(cl *Client, kind, name string, src []byte) (Document, bool, error) {
	var d Document
	r, err := cl.Do(Call{Method: http.MethodPut, Path: "/v1/" + kind + "s/" + url.PathEscape(name), Body: src,
		Header: map[string]string{"Content-Type": "application/yaml"}})
	if err != nil {
		return d, false, err
	}
	return d, r.Status == http.StatusCreated, r.Into(&d)
}

type listDefinitions struct {
	ServerFlags
	cli.OutputFlag
}

// Run lists them.
func (c *listDefinitions) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	if c.Machine() {
		return listRaw(a, cl, "/v1/definitions", url.Values{}, 0)
	}
	list, err := ReadAll[Document](cl, "/v1/definitions", url.Values{}, 0)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{d.Name, d.Version, d.SHA256[:min(12, len(d.SHA256))], cli.Clock(d.CreatedAt.Time)})
	}
	a.Table([]cli.Column{{Head: "DEFINITION", Least: 16}, {Head: "VERSION"}, {Head: "SHA-256"}, {Head: "PUBLISHED", Extra: true}}, rows)
	return nil
}

// action reads an action from the server and compiles it; version 0 is the newest.
func (c *Client) action(name string, version int) (*saga.Action, error) {
	path := "/v1/actions/" + url.PathEscape(name)
	if version > 0 {
		path += "/versions/" + strconv.Itoa(version)
	}
	var d Document
	_, err := c.Get(path, &d)
	var p *Problem
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
