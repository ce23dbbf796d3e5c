package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// JSONArg reads JSON from an argument: literal JSON, @FILE, or "-" for stdin.
func (a *App) JSONArg(flag, arg string) (json.RawMessage, error) {
	if arg == "" {
		return nil, nil
	}
	src := []byte(arg)
	var err error
	if arg == "-" {
		src, err = a.readStdin()
	} else if name, file := strings.CutPrefix(arg, "@"); file {
		src, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, Exit(Usage, fmt.Errorf("%s: %w", flag, err))
	}
	if _, err := expr.Decode(src); err != nil {
		return nil, Exit(Usage, fmt.Errorf("%s is not JSON: %w; write JSON, @FILE, or - for stdin", flag, err))
	}
	return src, nil
}

// ReadSource reads a definition; "-" is stdin.
func (a *App) ReadSource(file string) ([]byte, error) {
	var src []byte
	var err error
	if file == "-" {
		src, err = a.readStdin()
	} else {
		src, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, Exit(Usage, err)
	}
	return src, nil
}

// readStdin reads stdin. It refuses more than a definition may have instead of cutting it: the
// beginning of a definition may be one, too.
func (a *App) readStdin() ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(a.Stdin, dsl.MaxBytes+1))
	if err == nil && len(src) > dsl.MaxBytes {
		err = fmt.Errorf("stdin has more than the %d bytes allowed", dsl.MaxBytes)
	}
	return src, err
}

// Pairs reads k=v arguments.
func Pairs(flag string, list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, entry := range list {
		k, v, ok := strings.Cut(entry, "=")
		if !ok || k == "" {
			return nil, Exit(Usage, fmt.Errorf("%s %s: write name=value", flag, entry))
		}
		if _, twice := m[k]; twice {
			return nil, Exit(Usage, fmt.Errorf("%s %s is given twice", flag, k))
		}
		m[k] = v
	}
	return m, nil
}

// Open opens a file to read; "-" is stdin.
func (a *App) Open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(a.Stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, Exit(Usage, err)
	}
	return f, nil
}

// ParseTime parses a time or an age.
func ParseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := dsl.ParseDuration(text); err == nil {
		return time.Now().Add(-d), nil
	}
	for _, form := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, Exit(Usage, fmt.Errorf("%s %s: write a time such as 2026-11-21T10:00:00Z, a day, or how long ago, such as 24h or 7d", flag, text))
}

// Confirm asks a person a question, on Stdout or Stderr, unless yes is set. refused is the error if
// the answer is no.
func (a *App) Confirm(to io.Writer, question string, yes bool, refused string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(to, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			fmt.Fprintln(to)
			return Exit(Usage, errors.New("no answer on the terminal: use --yes without a terminal"))
		}
	}
	return Exit(Failed, errors.New(refused))
}
