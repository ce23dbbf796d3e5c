package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"recourse/internal/httptext"
	"recourse/saga/expr"
)

// Server is an MCP server of the configuration. It has a URL or a command.
type Server struct {
	Name    string
	URL     string            // of streamable HTTP
	Headers map[string]string // sent with each request; values may contain ${secrets.NAME}
	Command string            // a program that serves on its stdin and stdout
	Args    []string
	Env     map[string]string // for the program; values may contain ${secrets.NAME}
}

// Config lists the servers.
type Config []Server

// Names returns the names of the servers. It is not nil.
func (c Config) Names() []string {
	names := make([]string, 0, len(c))
	for _, s := range c {
		names = append(names, s.Name)
	}
	return names
}

// own are headers that the protocol determines.
var own = []string{"accept", "content-type", "accept-encoding", "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id"}

// Check returns all errors of the configuration. They contain no values of headers and of env.
func (c Config) Check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, s := range c {
		who := s.Name
		switch {
		case !ServerName.MatchString(s.Name):
			who = fmt.Sprintf("number %d", i+1)
			fail("%s: name %q: a server's name is a small letter, then up to 62 small letters, digits, _ or -", who, s.Name)
		case slices.ContainsFunc(c[:i], func(o Server) bool { return o.Name == s.Name }):
			fail("%s is there twice", s.Name)
		}
		switch {
		case (s.URL == "") == (s.Command == ""):
			fail("%s: write url, or command", who)
		case s.URL != "":
			if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || strings.Contains(s.URL, "${") {
				fail("%s: url: write an http or https URL without a user, such as https://tools.example/mcp; secrets go into headers", who)
			}
			if len(s.Args) > 0 || len(s.Env) > 0 {
				fail("%s: args and env belong to command", who)
			}
		case len(s.Headers) > 0:
			fail("%s: headers belong to url", who)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			if !httptext.Settable(name) || slices.Contains(own, strings.ToLower(name)) {
				fail("%s: headers: %q cannot be set", who, name)
			}
			if err := checkValue(s.Headers[name]); err != nil {
				fail("%s: headers: %s: %w", who, name, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				fail("%s: env: %q is no name of a variable", who, name)
			}
			if err := checkValue(s.Env[name]); err != nil {
				fail("%s: env: %s: %w", who, name, err)
			}
		}
	}
	return errors.Join(errs...)
}

// checkValue refuses control characters, and ${…} that is not ${secrets.NAME}.
func checkValue(text string) error {
	if httptext.HasControl(text) {
		return errors.New("a line break or a control character is in its value")
	}
	rest := strings.ReplaceAll(text, "$${", "")
	for _, name := range expr.SealedNames(text) {
		rest = strings.ReplaceAll(rest, "${secrets."+name+"}", "")
	}
	if strings.Contains(rest, "${") {
		return errors.New("only ${secrets.NAME} can be in its value; write $${ for a plain ${")
	}
	return nil
}

// Secrets returns the names of the secrets that the configuration of a server mentions.
func (s *Server) Secrets() []string {
	var names []string
	for _, values := range []map[string]string{s.Headers, s.Env} {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			names = append(names, expr.SealedNames(values[key])...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
