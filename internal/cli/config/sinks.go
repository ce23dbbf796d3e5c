package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"recourse/internal/cli"
	"recourse/internal/notify"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds/emit"
)

// sinkConfig is an entry of `sinks` in the config file.
type sinkConfig struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Secrets []string `json:"secrets"`
	Types   []string `json:"types"`
	Notify  []string `json:"notify"`
}

// ReadSinks reads the `sinks` of the config file; none without a file.
func ReadSinks(path string, src *secrets.Source) ([]outbox.Sink, error) {
	raw, err := section(path, "sinks")
	if err != nil || raw == nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []sinkConfig
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%w %s: sinks: write a list of {name, url, secrets, types, notify}: %w", ErrFile, path, err)
	}
	var sinks []outbox.Sink
	for i, c := range list {
		if slices.ContainsFunc(sinks, func(s outbox.Sink) bool { return s.Name == c.Name }) {
			return nil, fmt.Errorf("%w %s: sinks: %s is there twice", ErrFile, path, c.Name)
		}
		if err := c.check(src); err != nil {
			return nil, fmt.Errorf("%w %s: sinks: number %d: %w", ErrFile, path, i+1, err)
		}
		sinks = append(sinks, outbox.Sink(c))
	}
	return sinks, nil
}

// check validates a sink.
func (c *sinkConfig) check(src *secrets.Source) error {
	if !emit.Name.MatchString(c.Name) {
		return fmt.Errorf("name %q: a sink's name is a small letter, then up to 62 small letters, digits, _ or -", c.Name)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("url of %s: write a URL such as https://example.com/events", c.Name)
	}
	if u.User != nil {
		return fmt.Errorf("url of %s: no user and password here; events are signed with `secrets`", c.Name)
	}
	for _, pattern := range c.Types {
		if name := strings.TrimSuffix(pattern, ".*"); name == "" || strings.ContainsAny(name, "* ") {
			return fmt.Errorf("types of %s: %q: write an event's type, or the beginning of some and .*, such as com.shop.*", c.Name, pattern)
		}
	}
	for _, pattern := range c.Types {
		if strings.HasPrefix(pattern, saga.OwnEvents) {
			return fmt.Errorf("types of %s: %q: types select events that sagas emit; use `notify` for notices of the server", c.Name, pattern)
		}
	}
	for _, kind := range c.Notify {
		if known := append(slices.Clone(notify.Kinds), notify.Anchor); kind != "all" && !slices.Contains(known, kind) {
			return fmt.Errorf("notify of %s: there is no %q%s; there are %s, and all, which is all but %s", c.Name, kind, dsl.Suggest(kind, known), strings.Join(known, ", "), notify.Anchor)
		}
	}
	if slices.Contains(c.Notify, "all") {
		anchors := slices.Contains(c.Notify, notify.Anchor)
		c.Notify = slices.Clone(notify.Kinds)
		if anchors {
			c.Notify = append(c.Notify, notify.Anchor)
		}
	}
	for _, name := range c.Secrets {
		text, err := src.Get(name)
		if err == nil {
			err = outbox.CheckSecret(text)
		}
		if err != nil {
			return fmt.Errorf("secrets of %s: %s: %w", c.Name, name, err)
		}
	}
	return nil
}

// Notices returns which sinks get which notices; nil if none gets any.
func Notices(sinks []outbox.Sink) *notify.Notices {
	n := &notify.Notices{To: make(map[string][]string)}
	for _, s := range sinks {
		for _, kind := range s.Notify {
			if kind != notify.Anchor && !slices.Contains(n.To[kind], s.Name) {
				n.To[kind] = append(n.To[kind], s.Name)
			}
		}
	}
	if len(n.To) == 0 {
		return nil
	}
	return n
}

// section returns a section of the config file as JSON; nil if absent.
func section(path, name string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrFile, path, err)
	}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%w %s: %w", ErrFile, path, errors.New("write a map of settings to their values"))
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == name {
			raw, err := cli.YAMLToJSON(root.Content[i+1])
			if err != nil {
				return nil, fmt.Errorf("%w %s: %s: %w", ErrFile, path, name, err)
			}
			return raw, nil
		}
	}
	return nil, nil
}
