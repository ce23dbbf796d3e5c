package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"recourse/saga/expr"
)

// jsonArg reads JSON from an argument: literal JSON, @FILE, or "-" for stdin.
func (a *app) jsonArg(flag, arg string) (json.RawMessage, error) {
	if arg == "" {
		return nil, nil
	}
	src := []byte(arg)
	var err error
	if arg == "-" {
		src, err = io.ReadAll(io.LimitReader(a.Stdin, 2<<20))
	} else if name, file := strings.CutPrefix(arg, "@"); file {
		src, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("%s: %w", flag, err))
	}
	if _, err := expr.Decode(src); err != nil {
		return nil, exit(exitUsage, fmt.Errorf("%s is not JSON: %w; write JSON, @FILE, or - for stdin", flag, err))
	}
	return src, nil
}

// source reads a definition; "-" is stdin.
func (a *app) source(file string) ([]byte, error) {
	var src []byte
	var err error
	if file == "-" {
		src, err = io.ReadAll(io.LimitReader(a.Stdin, 2<<20))
	} else {
		src, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	return src, nil
}

// pairs reads k=v arguments.
func pairs(flag string, list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, entry := range list {
		k, v, ok := strings.Cut(entry, "=")
		if !ok || k == "" {
			return nil, exit(exitUsage, fmt.Errorf("%s %s: write name=value", flag, entry))
		}
		if _, twice := m[k]; twice {
			return nil, exit(exitUsage, fmt.Errorf("%s %s is given twice", flag, k))
		}
		m[k] = v
	}
	return m, nil
}

// open opens a file to read; "-" is stdin.
func (a *app) open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(a.Stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	return f, nil
}

// decode reads JSON of our own making.
func decode(src []byte, into any) error { return json.Unmarshal(src, into) }
