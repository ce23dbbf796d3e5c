package dsl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/dsl"
)

// badDuration says how a reader of durations breaks its word: what it takes is
// not negative, within ten years, and what the library makes of it.
func badDuration(read func(string) (time.Duration, error), text string) error {
	d, err := read(text)
	if err != nil {
		if err.Error() == "" || len(err.Error()) > 500 {
			return fmt.Errorf("%q: the error is %q", text, err)
		}
		return nil
	}
	if d < 0 || d > dsl.MaxDuration {
		return fmt.Errorf("%q is %v", text, d)
	}
	hours := days.ReplaceAllStringFunc(text, func(n string) string { // as the library takes it
		n = strings.TrimSuffix(n, "d")
		i, _ := strconv.Atoi(n)
		return strconv.Itoa(24*i) + "h"
	})
	if want, err := time.ParseDuration(hours); err != nil || want != d {
		return fmt.Errorf("%q is %v, want %v, %w", text, d, want, err)
	}
	return nil
}

var days = regexp.MustCompile(`[0-9]+d`)

func FuzzDuration(f *testing.F) {
	for _, text := range []string{"30s", "1h30m", "100ms", "2d", "1.5h", "0", "-1s", "9223372037s", "1e400s", "999999999999h", "1h1h", "٣s", "1µs", "1ns", ".5s", "5", "1 h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := badDuration(dsl.ParseDuration, text); err != nil {
			t.Error(err)
		}
	})
}

func TestFuzzDurationCanFail(t *testing.T) {
	for text, read := range map[string]func(string) (time.Duration, error){
		"-1s":     time.ParseDuration,
		"999999h": time.ParseDuration,
		"9223372037s": func(string) (time.Duration, error) { // as if it had overflowed
			var n int64 = 9223372037
			return time.Duration(n) * time.Second, nil
		},
	} {
		if badDuration(read, text) == nil {
			t.Errorf("not noticed: %q", text)
		}
	}
}

// parser is dsl.Parse, or a bad one.
type parser func(src []byte) (*saga.Definition, *dsl.Errors)

func parse(src []byte) (*saga.Definition, *dsl.Errors) { return dsl.Parse("fuzz.yaml", src, options()) }

// badParser says how a parser breaks its word: it ends soon, with either a definition
// or errors that have places in the text, and reads the definition's own source as the same.
func badParser(parse parser, src []byte) error {
	began := time.Now()
	def, errs := parse(src)
	if took := time.Since(began); took > 10*time.Second {
		return fmt.Errorf("it took %v", took)
	}
	if (def == nil) == (errs == nil) {
		return fmt.Errorf("definition %v, errors %v", def, errs)
	}
	if errs != nil {
		for _, e := range errs.List {
			if e.Line < 1 || e.Column < 1 || e.Code == "" || e.Detail == "" {
				return fmt.Errorf("an error without its place: %+v", e)
			}
		}
		return nil
	}
	again, errs := parse(def.Source)
	if errs != nil || again.SHA256 != def.SHA256 || len(again.ByID) != len(def.ByID) {
		return fmt.Errorf("parsing the source again gives another definition: %v", errs)
	}
	return nil
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"testdata/good", "testdata/bad", "../../examples"} {
		files, err := filepath.Glob(dir + "/*.yaml")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if err := badParser(parse, src); err != nil {
			t.Error(err)
		}
	})
}

// badAction is badParser for actions.
func badAction(parse func(src []byte) (*saga.Action, *dsl.Errors), src []byte) error {
	a, errs := parse(src)
	if (a == nil) == (errs == nil) {
		return fmt.Errorf("action %v, errors %v", a, errs)
	}
	if errs != nil {
		for _, e := range errs.List {
			if e.Line < 1 || e.Column < 1 || e.Code == "" || e.Detail == "" {
				return fmt.Errorf("an error without its place: %+v", e)
			}
		}
		return nil
	}
	again, errs := parse(a.Source)
	if errs != nil || again.SHA256 != a.SHA256 || !slices.Equal(again.Keys, a.Keys) {
		return fmt.Errorf("parsing the source again gives another action: %v", errs)
	}
	if a.Agents == nil {
		return nil
	}
	for _, l := range a.Agents.Limits {
		if (l.Calls > 0) == (l.Sum != nil) {
			return fmt.Errorf("limit %+v is neither calls nor a sum, or both", l)
		}
	}
	return nil
}

func parseAction(src []byte) (*saga.Action, *dsl.Errors) {
	return dsl.ParseAction("fuzz.yaml", src, options())
}

func FuzzParseAction(f *testing.F) {
	for _, pattern := range []string{"testdata/actions/*.yaml", "testdata/bad/action-*.yaml", "../../examples/a*/*.yaml"} {
		for _, file := range glob(f, pattern) {
			f.Add(read(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if err := badAction(parseAction, src); err != nil {
			t.Error(err)
		}
	})
}

func TestFuzzParseActionCanFail(t *testing.T) {
	good, bad := []byte("action: x\nhttp: GET https://a.example/\nagents: {limits: [{calls: 1}]}\n"), []byte("action: x\n")
	for name, p := range map[string]func([]byte) (*saga.Action, *dsl.Errors){
		"neither": func([]byte) (*saga.Action, *dsl.Errors) { return nil, nil },
		"no place": func([]byte) (*saga.Action, *dsl.Errors) {
			_, errs := parseAction(bad)
			errs.List[0].Line = 0
			return nil, errs
		},
		"another source": func(src []byte) (*saga.Action, *dsl.Errors) {
			a, errs := parseAction(src)
			if a != nil {
				a.Source = bad
			}
			return a, errs
		},
		"a limit of nothing": func(src []byte) (*saga.Action, *dsl.Errors) {
			a, errs := parseAction(src)
			a.Agents.Limits = append(a.Agents.Limits, saga.CallLimit{})
			return a, errs
		},
	} {
		if badAction(p, good) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
	if err := badAction(parseAction, good); err != nil {
		t.Error(err)
	}
}

func TestFuzzParseCanFail(t *testing.T) {
	good, bad := []byte("saga: x\nsteps: [{id: a, set: 1}]\n"), []byte("saga: x\n")
	for name, p := range map[string]parser{
		"neither": func([]byte) (*saga.Definition, *dsl.Errors) { return nil, nil },
		"both": func([]byte) (*saga.Definition, *dsl.Errors) {
			def, _ := parse(good)
			_, errs := parse(bad)
			return def, errs
		},
		"no place": func(src []byte) (*saga.Definition, *dsl.Errors) {
			_, errs := parse(bad)
			errs.List[0].Line = 0
			return nil, errs
		},
		"another source": func(src []byte) (*saga.Definition, *dsl.Errors) {
			def, errs := parse(src)
			def.Source = []byte("saga: y\nsteps: [{id: b, set: 1}]\n")
			return def, errs
		},
	} {
		if badParser(p, good) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
	if err := badParser(parse, good); err != nil {
		t.Error(err)
	}
}
