package cli

import (
	"bytes"
	"fmt"

	"recourse/journal"
)

// Raw prints a JSON response unchanged, with a line break, or as YAML.
func (a *App) Raw(body []byte) error {
	if a.YAML {
		text, err := jsonToYAML(body)
		if err != nil {
			return err
		}
		a.Printf("%s", text)
		return nil
	}
	a.Printf("%s\n", bytes.TrimRight(body, "\n"))
	return nil
}

// Encode prints a value in the same format as Raw.
func (a *App) Encode(v any) error {
	b, err := journal.Encode(v)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return a.Raw(b)
}

// OutputFlag selects the format of the output.
type OutputFlag struct {
	Output string `short:"o" enum:"text,json,yaml" default:"text" env:"RECOURSE_OUTPUT" help:"text for people, json or yaml for programs (numbers keep their digits)."`
}

// Machine reports whether the output is machine-readable: App.Raw and App.Encode write it in the
// selected format.
func (o OutputFlag) Machine() bool { return o.Output != "text" }
