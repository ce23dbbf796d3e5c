package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

type definitionsCmd struct {
	Apply applyCmd           `cmd:"" help:"Publish every definition in a directory, or single files; unchanged ones stay as they are."`
	List  listDefinitionsCmd `cmd:"" help:"List the newest version of each definition."`
}

type applyCmd struct {
	serverFlags
	outputFlag
	Paths []string `arg:"" name:"path" help:"A directory of .yaml, .yml and .json files, or files."`
}

// document is a published version, as the API shows it.
type document struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	SHA256    string         `json:"sha256"`
	CreatedAt saga.Time      `json:"created_at"`
	Warnings  []saga.Finding `json:"warnings"`
	Source    string         `json:"source,omitempty"`
}

// applied is what became of one file.
type applied struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Changed bool   `json:"changed"`
}

// Run checks all files first, so that a mistake in one publishes none.
func (c *applyCmd) Run(a *app) error {
	cl, err := c.client(a.ctx)
	if err != nil {
		return err
	}
	files, err := definitionFiles(c.Paths)
	if err != nil {
		return err
	}
	sources, defs := make([][]byte, len(files)), make([]*saga.Definition, len(files))
	bad := false
	for i, f := range files {
		if sources[i], err = a.source(f); err != nil {
			return err
		}
		var errs *dsl.Errors
		if defs[i], errs = dsl.Parse(f, sources[i], dsl.Options{Kinds: kinds.All()}); errs != nil {
			a.note("%v", errs)
			bad = true
		}
	}
	if bad {
		return exit(exitUsage, errors.New("nothing was published: mend the errors above first"))
	}
	list := make([]applied, len(files))
	for i, f := range files {
		d, created, err := publish(cl, defs[i].Name, sources[i])
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		list[i] = applied{File: f, Name: d.Name, Version: d.Version, Changed: created}
		if !c.json() {
			state := "unchanged"
			if created {
				state = "published"
			}
			a.printf("%s  %s %s %s\n", f, d.Name, d.Version, state)
		}
	}
	if c.json() {
		return a.encoded(list)
	}
	return nil
}

func publish(cl *client, name string, src []byte) (document, bool, error) {
	var d document
	r, err := cl.do(call{method: http.MethodPut, path: "/v1/definitions/" + url.PathEscape(name), body: src,
		header: map[string]string{"Content-Type": "application/yaml"}})
	if err != nil {
		return d, false, err
	}
	return d, r.status == http.StatusCreated, r.into(&d)
}

// definitionFiles lists what the arguments name, directories not searched into.
func definitionFiles(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, exit(exitUsage, err)
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, exit(exitUsage, err)
		}
		for _, e := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))) && !e.IsDir() {
				files = append(files, filepath.Join(p, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, exit(exitUsage, errors.New("there is no .yaml, .yml or .json file to publish"))
	}
	return files, nil
}

type listDefinitionsCmd struct {
	serverFlags
	outputFlag
}

// Run lists them.
func (c *listDefinitionsCmd) Run(a *app) error {
	cl, err := c.client(a.ctx)
	if err != nil {
		return err
	}
	if c.json() {
		return listRaw(a, cl, "/v1/definitions", url.Values{}, 0)
	}
	list, err := pages[document](cl, "/v1/definitions", url.Values{}, 0)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{d.Name, d.Version, d.SHA256[:min(12, len(d.SHA256))], clock(d.CreatedAt.Time)})
	}
	a.table([]string{"DEFINITION", "VERSION", "SHA-256", "PUBLISHED"}, rows)
	return nil
}
