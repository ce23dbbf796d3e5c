package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recourse/internal/evidence"
	"recourse/internal/notify"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
)

// evidenceFile is the YAML form of `evidence`.
type evidenceFile struct {
	Key     string `json:"key"`      // name of a secret
	KeyFile string `json:"key-file"` // instead of it
	Every   string `json:"every"`
	File    string `json:"file"`
}

// ReadEvidence reads `evidence` from the config file; nil if absent. Anchors go to the sinks that
// name them in `notify`.
func ReadEvidence(path string, src *secrets.Source, sinks []outbox.Sink) (*evidence.Options, error) {
	raw, err := section(path, "evidence")
	if err != nil {
		return nil, err
	}
	o := &evidence.Options{Every: time.Minute}
	for _, s := range sinks {
		if slices.Contains(s.Notify, notify.Anchor) {
			o.Sinks = append(o.Sinks, s.Name)
		}
	}
	bad := func(format string, args ...any) (*evidence.Options, error) {
		return nil, fmt.Errorf("%w %s: evidence: %w", ErrFile, path, fmt.Errorf(format, args...))
	}
	if raw == nil {
		if len(o.Sinks) > 0 {
			return bad("the sink %s gets anchors, and there is no key to sign them: write such as {key: ANCHOR_KEY}, or remove %s from its `notify`", o.Sinks[0], notify.Anchor)
		}
		return nil, nil
	}
	var f evidenceFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return bad("write such as {key: ANCHOR_KEY, every: 1m, file: /var/lib/anchors.ndjson}; key-file instead of key names a file: %w", err)
	}
	if f.Every != "" {
		if o.Every, err = time.ParseDuration(f.Every); err != nil || o.Every < time.Second || o.Every > time.Hour {
			return bad("every is the time between anchors, from 1s to 1h, not %q", f.Every)
		}
	}
	if (f.Key == "") == (f.KeyFile == "") {
		return bad("name the key that signs anchors, either as key, the name of a secret, or as key-file")
	}
	text := ""
	if f.Key != "" {
		if text, err = src.Get(f.Key); err != nil {
			return bad("key: %w", err)
		}
		src.Reserve(f.Key, "it signs anchors")
	} else {
		read, err := os.ReadFile(f.KeyFile)
		if err != nil {
			return bad("key-file: %w", err)
		}
		text = string(read)
	}
	if o.Key, err = evidence.ParseKey([]byte(text)); err != nil {
		return bad("key: %w", err)
	}
	if o.File = f.File; f.File != "" {
		if info, err := os.Stat(filepath.Dir(f.File)); err != nil || !info.IsDir() {
			return bad("file: there is no directory %s: create it, or name another file", filepath.Dir(f.File))
		}
	}
	if f.File == "" && len(o.Sinks) == 0 {
		return bad("anchors must go somewhere: name a file, or write `notify: [%s]` at a sink", notify.Anchor)
	}
	return o, nil
}
