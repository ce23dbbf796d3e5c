// Package config is the configuration of a server: the flags of `recourse serve`, the file in
// --config, variables, secrets' hosts, sinks, limits, language models and traces. `run`, `doctor`
// and `demo` use parts of it.
package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"recourse/saga/dsl"
	"recourse/saga/kinds/llm"
)

// File sets flags of `serve` and `doctor` from the file in --config: the same names, in YAML,
// and llm, which has no flag. Flags and variables take precedence.
type File struct {
	env    map[string]string
	loaded bool
	Values map[string]string // by flag
	LLM    llm.Config        // the section llm, which has no flag
	Err    error             // the file's error, which `doctor` reports and with which `serve` does not start
}

// NewFile returns the file that --config or RECOURSE_CONFIG names, which is read when kong resolves
// the first flag.
func NewFile(env map[string]string) *File { return &File{env: env} }

// ErrFile means that the file is wrong.
var ErrFile = errors.New("config file")

// sections are the keys of the file without a flag.
var sections = []string{"evidence", "limits", "llm", "mcp", "mcp_oauth", "secret-hosts", "sinks"}

// Validate implements kong.Resolver.
func (*File) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *File) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if parent.Command == nil || parent.Command.Name != "serve" && parent.Command.Name != "doctor" || flag.Name == "config" {
		return nil, nil
	}
	if !f.loaded {
		f.loaded = true
		i := slices.IndexFunc(ctx.Model.Children, func(n *kong.Node) bool { return n.Name == "serve" })
		err := f.load(ctx, ctx.Model.Children[i])
		if err != nil && parent.Command.Name == "serve" {
			return nil, err
		}
		f.Err = err
	}
	if v, ok := f.Values[flag.Name]; ok {
		return v, nil
	}
	return nil, nil
}

// path returns the file's name, which is needed before the flags are resolved.
func (f *File) path(ctx *kong.Context) string {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			if s, ok := ctx.FlagValue(p.Flag).(string); ok {
				return s
			}
		}
	}
	return f.env["RECOURSE_CONFIG"]
}

func (f *File) load(ctx *kong.Context, serve *kong.Node) error {
	path := f.path(ctx)
	if path == "" {
		return nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	var doc map[string]any
	if err := yaml.Load(src, &doc); err != nil {
		return fmt.Errorf("%w %s: write a map of the flags' names to their values: %w", ErrFile, path, err)
	}
	var known []string
	for _, flag := range serve.Flags {
		if !flag.Hidden && flag.Name != "config" && flag.Name != "help" {
			known = append(known, flag.Name)
		}
	}
	f.Values = make(map[string]string, len(doc))
	if f.LLM, err = readLLM(src); err != nil {
		return fmt.Errorf("%w %s: llm: %w", ErrFile, path, err)
	}
	for name, value := range doc {
		if slices.Contains(sections, name) {
			continue
		}
		if !slices.Contains(known, name) {
			known = append(known, sections...)
			return fmt.Errorf("%w %s: there is no setting %q%s; there are %s", ErrFile, path, name, dsl.Suggest(name, known), strings.Join(known, ", "))
		}
		text, err := plain(value)
		if err != nil {
			return fmt.Errorf("%w %s: %s: %w", ErrFile, path, name, err)
		}
		f.Values[name] = text
	}
	return nil
}

// plain formats a YAML value as the value of a flag.
func plain(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			s, ok := one.(string)
			if !ok || strings.Contains(s, ",") {
				return "", errors.New("write a list of texts")
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("write a text, a number, true or false, or a list of texts, not %T", v)
}
