package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/export"
	"recourse/internal/invariant"
	"recourse/saga/dsl"
)

// ledgerLine is a line of a ledger: a request with its effect, or, in the world's format, an event
// alone.
type ledgerLine struct {
	N          int64           `json:"n"`
	At         string          `json:"at"`
	Kind       world.Kind      `json:"kind"`
	Service    string          `json:"service"`
	Op         string          `json:"op"`
	Method     string          `json:"method"`
	Path       string          `json:"path"`
	Key        string          `json:"key"`
	BodySHA256 string          `json:"body_sha256"`
	Effect     json.RawMessage `json:"effect"` // true, or an id
	EffectID   string          `json:"effect_id"`
	Undoes     string          `json:"undoes"`
	Duplicate  bool            `json:"duplicate"`
	Fault      string          `json:"fault"`
}

func (c *Command) ledger(a *cli.App) (*invariant.Ledger, error) {
	l := &invariant.Ledger{Complete: c.Complete, Keyless: make(map[string]bool)}
	for _, name := range c.Keyless {
		l.Keyless[name] = true
	}
	if len(c.LedgerOf) > 0 {
		l.Covers = func(url string) bool {
			return slices.ContainsFunc(c.LedgerOf, func(prefix string) bool { return strings.HasPrefix(url, prefix) })
		}
	}
	var err error
	if l.Skew, err = dsl.ParseDuration(c.Skew); err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--skew: %w", err))
	}
	if l.Until, err = cli.ParseTime("--ledger-until", c.LedgerUntil); err != nil {
		return nil, err
	}
	if c.LedgerUntil == "" {
		if l.Until, err = written(c.Ledger); err != nil {
			return nil, err
		}
	}
	if l.Entries, err = ledgerEntries(a, c.Ledger); err != nil {
		return nil, err
	}
	l.RequestsOnly = len(l.Entries.Effects()) == 0 && len(l.Entries.Undos()) == 0
	return l, nil
}

// ledgerEntries reads a ledger, in the order of its events.
func ledgerEntries(a *cli.App, file string) (world.Ledger, error) {
	raws, err := fileValues(a, file)
	if err != nil {
		return nil, err
	}
	var list world.Ledger
	numbered := make(map[int64]int) // the world writes a request again after its response
	for i, raw := range raws {
		var line ledgerLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: entry %d: %w", file, i+1, err))
		}
		entries, err := line.entries(i + 1)
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: entry %d: %w", file, i+1, err))
		}
		if at, again := numbered[line.N]; again && line.N > 0 && len(entries) == 1 {
			list[at] = entries[0]
			continue
		}
		numbered[line.N] = len(list)
		list = append(list, entries...)
	}
	slices.SortStableFunc(list, func(x, y world.Entry) int { return x.At.Compare(y.At) })
	for i := range list {
		list[i].N = int64(i + 1)
	}
	return list, nil
}

// entries converts a line into entries: one for the request, one for its effect and one for what it
// undid.
func (l ledgerLine) entries(number int) ([]world.Entry, error) {
	at, err := time.Parse(time.RFC3339Nano, l.At)
	if err != nil {
		return nil, errors.New("its `at` is not a time such as 2026-11-21T10:00:00.123Z")
	}
	if l.Key == "" && l.Path == "" {
		return nil, errors.New("it has neither the `key` nor the `path` of its request")
	}
	effect, err := l.effect(number)
	if err != nil {
		return nil, err
	}
	e := world.Entry{At: at, Service: l.Service, Op: l.Op, Method: strings.ToUpper(l.Method), Path: l.uri(), Key: l.Key,
		BodySHA256: strings.ToLower(l.BodySHA256), Fault: l.Fault}
	if l.Duplicate {
		e.Fault = world.Duplicate
	}
	var list []world.Entry
	add := func(kind world.Kind) {
		e.Kind = kind
		list = append(list, e)
	}
	switch l.Kind {
	case "", world.Request:
		add(world.Request)
	case world.Effect, world.Undo:
	default:
		return nil, fmt.Errorf("kind %q: there are request, effect and undo", l.Kind)
	}
	if effect != "" && l.Kind != world.Undo {
		e.EffectID = effect
		add(world.Effect)
	}
	if l.Undoes != "" {
		e.EffectID, e.Undoes = "", l.Undoes
		add(world.Undo)
	}
	return list, nil
}

// effect returns the id of the request's effect, "" for none.
func (l ledgerLine) effect(number int) (string, error) {
	id := l.EffectID
	switch text := string(l.Effect); {
	case text == "", text == "false", text == "null":
	case text == "true":
		id = fmt.Sprintf("the effect of entry %d", number)
	case json.Unmarshal(l.Effect, &id) != nil:
		return "", errors.New("its `effect` is true, or the id of what was done, as a text")
	}
	return id, nil
}

// uri returns the path with the query, also for a whole URL.
func (l ledgerLine) uri() string {
	if u, err := url.Parse(l.Path); err == nil && u.IsAbs() {
		return u.RequestURI()
	}
	return l.Path
}

// fileValues reads the JSON documents of a file.
func fileValues(a *cli.App, file string) ([]json.RawMessage, error) {
	src, err := a.Open(file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	raws, err := export.Values(src)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: entry %d: write one JSON object a line, or an array of them: %w", file, len(raws)+1, err))
	}
	return raws, nil
}

// readStarts reads acknowledged starts.
func readStarts(a *cli.App, file string) ([]invariant.Start, error) {
	raws, err := fileValues(a, file)
	if err != nil {
		return nil, err
	}
	list := []invariant.Start{}
	for i, raw := range raws {
		var s struct {
			ID    string          `json:"id"`
			Key   string          `json:"key"`
			Input json.RawMessage `json:"input"`
		}
		err := json.Unmarshal(raw, &s)
		id, bad := uuid.FromString(s.ID)
		if err != nil || bad != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: entry %d is not an acknowledged start: write {\"id\": ID, \"key\": KEY, \"input\": …}, the last two if you like", file, i+1))
		}
		list = append(list, invariant.Start{ID: id, Key: s.Key, Input: s.Input})
	}
	return list, nil
}

// minCanary is the minimum length of a canary; shorter texts would match by accident.
const minCanary = 6

// readCanaries reads secrets, one per line.
func readCanaries(a *cli.App, file string) ([]string, error) {
	src, err := a.Open(file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var list []string
	lines := bufio.NewScanner(src)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSuffix(lines.Text(), "\r")
		if text == "" {
			continue
		}
		if len(text) < minCanary {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: line %d has less than %d characters, which may be in a journal by chance", file, n, minCanary))
		}
		list = append(list, text)
	}
	if err := lines.Err(); err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: %w", file, err))
	}
	return list, nil
}
