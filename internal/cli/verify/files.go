package verify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/archive"
	"recourse/internal/cli"
	"recourse/internal/cli/export"
	"recourse/internal/invariant"
	"recourse/saga/dsl"
	"recourse/saga/history"
	"recourse/saga/kinds"
)

// files checks the journals of files and directories, a file at a time.
func (v *check) files(paths []string) error {
	if v.cmd.Since != "" {
		return cli.Exit(cli.Usage, errors.New("--since is for --database: of files, name those to check"))
	}
	own, err := sagaID(v.cmd.Saga)
	if err != nil {
		return err
	}
	files, err := v.exportFiles(paths)
	if err != nil {
		return err
	}
	if !own.IsNil() && len(files) > 1 {
		return cli.Exit(cli.Usage, errors.New("--saga is the id of one journal: give one file with it"))
	}
	seen := make(map[uuid.UUID]string)
	progress := v.app.Progress("files", len(files))
	defer progress.End()
	for i, file := range files {
		progress.At(i)
		list, err := v.read(file, own)
		if err != nil {
			return err
		}
		for _, ex := range list {
			if other, twice := seen[ex.Saga]; twice {
				return cli.Exit(cli.Usage, fmt.Errorf("the journal of saga %s is in %s and in %s: give it once", ex.Saga, other, file))
			}
			seen[ex.Saga] = file
			s := v.exported(ex)
			v.compare(&s)
			v.checker.Add(v.checker.Check(s))
		}
	}
	return nil
}

// exportFiles lists the files that the arguments name, without subdirectories.
func (v *check) exportFiles(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		if info, err := os.Stat(p); p == "-" || err != nil || !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
		for _, e := range entries {
			file := filepath.Join(p, e.Name())
			known := slices.Contains([]string{".ndjson", ".jsonl", ".json"}, strings.ToLower(filepath.Ext(strings.TrimSuffix(file, compressed))))
			if known && !e.IsDir() && !v.cmd.names(file) {
				files = append(files, file)
			}
		}
	}
	if len(files) == 0 {
		return nil, cli.Exit(cli.Usage, errors.New("there is no .ndjson, .jsonl or .json file to check"))
	}
	return files, nil
}

// names reports whether another flag names the file.
func (c *Command) names(file string) bool {
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat([]string{c.Ledger, c.Starts, c.Canaries}, c.Anchors, c.Definitions, c.Actions), func(other string) bool {
		there, err := os.Stat(other)
		return err == nil && os.SameFile(info, there)
	})
}

// compressed is the end of the name of an object of an archive.
const compressed = ".zst"

// read reads the journals of a file. own is the saga id of a journal that does not name it.
func (v *check) read(file string, own uuid.UUID) ([]export.Journal, error) {
	src, err := v.app.Open(file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var text io.Reader = src
	if strings.HasSuffix(file, compressed) {
		unpacked, err := archive.Unpack(src)
		if err != nil {
			return nil, err
		}
		defer unpacked.Close()
		text = unpacked
	}
	list, err := export.ReadAll(text)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: %w", file, err))
	}
	if !own.IsNil() && len(list) > 1 {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("%s has %d journals, each with its id: leave --saga away", file, len(list)))
	}
	for i := range list {
		if !own.IsNil() {
			list[i].Saga = own
		}
		if list[i].Saga.IsNil() {
			list[i].Saga = uuid.FromStringOrNil(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
		}
		if list[i].Saga.IsNil() {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%s does not name its saga: give --saga ID, or name the file after it", file))
		}
	}
	return list, nil
}

// exported finds the definition of a journal.
func (v *check) exported(ex export.Journal) invariant.Saga {
	s := invariant.Saga{ID: ex.Saga, Records: ex.Records}
	_ = v.defined(&s) // it returns no error
	return s
}

// defined finds the definition of a saga among those of the command line.
func (v *check) defined(s *invariant.Saga) error {
	d, err := history.Started(s.Records)
	if err != nil {
		return nil //nolint:nilerr // reported as a violation
	}
	if s.Definition = v.defs[d.SHA256]; s.Definition != nil {
		return nil
	}
	def, errs := dsl.Unpublished(&d, dsl.Options{Kinds: kinds.All(), Stored: true, Actions: v.actions.Find})
	switch {
	case errs != nil:
		v.lacks(d, errs.Error())
	case def == nil:
		v.lacks(d, "")
	default:
		s.Definition = def
	}
	return nil
}
