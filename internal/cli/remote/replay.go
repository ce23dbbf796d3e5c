package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"recourse/internal/cli"
	"recourse/saga/replay"
)

// Replayed is the result of a replay of one saga, as the API returns it.
type Replayed struct {
	Saga    string `json:"saga"`
	Version string `json:"version"`
	replay.Result
}

// replayPage is a page of results.
type replayPage struct {
	Data    []Replayed `json:"data"`
	Skipped []struct {
		Saga   string `json:"saga"`
		Detail string `json:"detail"`
	} `json:"skipped"`
	Next string `json:"next_cursor"`
}

// ReplayFlags select the sagas of a replay, and which results are refused.
type ReplayFlags struct {
	Sagas    string   `placeholder:"FILTER" help:"With --against: only these sagas, as in status=failed&label.team=a&started_after=2026-11-01T00:00:00Z."`
	Limit    int      `default:"100" help:"With --against: maximum of sagas to replay, newest first."`
	RefuseOn []string `placeholder:"VERDICT" help:"Exit with 1 if a saga gets one of these verdicts: other-request, never-answered, other-end, other-cost."`
}

// Replay replays sagas of the server against a definition in a file, and prints the results.
func (f ReplayFlags) Replay(a *cli.App, server ServerFlags, o cli.OutputFlag, file string) error {
	if f.Limit < 1 {
		return cli.Exit(cli.Usage, errors.New("--limit is 1 or more: with fewer, no saga would be replayed"))
	}
	if _, err := verdicts(f.RefuseOn); err != nil {
		return err
	}
	fields, err := f.fields()
	if err != nil {
		return err
	}
	cl, err := server.Client(a.Ctx)
	if err != nil {
		return err
	}
	todo, err := checkFiles(a, cl, []string{file})
	if err != nil {
		return err
	}
	if todo[0].kind != "definition" {
		return cli.Exit(cli.Usage, fmt.Errorf("%s is an action: sagas are replayed against a definition", file))
	}
	results, _, err := replaySagas(a, cl, todo[0], fields, f.Limit)
	if err != nil {
		return err
	}
	return f.Report(a, o, results)
}

// Report prints results. The exit code is Failed if one of them is refused.
func (f ReplayFlags) Report(a *cli.App, o cli.OutputFlag, results []Replayed) error {
	refused, err := verdicts(f.RefuseOn)
	if err != nil {
		return err
	}
	if o.Machine() {
		err = a.Encode(results)
	} else {
		printReplayed(a, results)
	}
	if err == nil && refusedBy(results, refused) > 0 {
		return cli.Exit(cli.Failed, nil)
	}
	return err
}

// fields returns the filter as fields of a request.
func (f ReplayFlags) fields() (map[string]any, error) {
	q, err := url.ParseQuery(f.Sagas)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--sagas: %w", err))
	}
	fields, labels := make(map[string]any), make(map[string]string)
	for name, values := range q {
		label, isLabel := strings.CutPrefix(name, "label.")
		switch {
		case isLabel:
			labels[label] = values[0]
		case name == "status":
			fields[name] = strings.Split(strings.Join(values, ","), ",")
		case name == "started_after" || name == "started_before":
			fields[name] = values[0]
		default:
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--sagas has no filter %s: there are status, label.NAME, started_after and started_before", name))
		}
	}
	if len(labels) > 0 {
		fields["labels"] = labels
	}
	return fields, nil
}

// verdicts checks the names of verdicts.
func verdicts(names []string) ([]replay.Verdict, error) {
	var list []replay.Verdict
	for _, name := range names {
		v := replay.Verdict(name)
		if v == replay.Same || !slices.Contains(replay.Verdicts, v) {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("there is no verdict %s to refuse: there are other-request, never-answered, other-end and other-cost", name))
		}
		list = append(list, v)
	}
	return list, nil
}

// refusedBy counts the results whose verdicts are refused.
func refusedBy(results []Replayed, refused []replay.Verdict) (n int) {
	for _, r := range results {
		if slices.Contains(refused, r.Verdict) {
			n++
		}
	}
	return n
}

// replaySagas replays up to limit sagas, and counts those that were skipped. A definition that the
// server does not know has none.
func replaySagas(a *cli.App, cl *Client, p publishing, fields map[string]any, limit int) (all []Replayed, skipped int, err error) {
	all = []Replayed{}
	progress := a.Progress("replayed", limit)
	defer progress.End()
	cursor := ""
	for len(all) < limit {
		body := map[string]any{"definition": string(p.src), "limit": min(limit-len(all), 1000)}
		maps.Copy(body, fields)
		if cursor != "" {
			body["cursor"] = cursor
		}
		doc, err := json.Marshal(body)
		if err != nil {
			return nil, 0, err
		}
		r, err := cl.Do(Call{Method: http.MethodPost, Path: "/v1/definitions/" + url.PathEscape(p.name) + "/replay", Body: doc})
		if Code(err) == "definition_not_found" {
			return all, skipped, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var page replayPage
		if err := r.Into(&page); err != nil {
			return nil, 0, err
		}
		all = append(all, page.Data...)
		progress.At(len(all))
		skipped += len(page.Skipped)
		for _, s := range page.Skipped {
			progress.End()
			a.Note("saga %s was skipped: %s", s.Saga, s.Detail)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return all, skipped, nil
}

// printReplayed prints the results that differ, and how many sagas got each verdict.
func printReplayed(a *cli.App, results []Replayed) {
	counts := make(map[replay.Verdict]int)
	var rows [][]string
	for _, r := range results {
		counts[r.Verdict]++
		if r.Verdict != replay.Same {
			rows = append(rows, []string{r.Saga, string(r.Verdict), r.Path, r.Difference()})
		}
	}
	if len(rows) > 0 {
		a.Table([]cli.Column{{Head: "SAGA"}, {Head: "VERDICT"}, {Head: "STEP"}, {Head: "DIFFERENCE", Least: 12, Extra: true}}, rows)
	}
	var parts []string
	for _, v := range replay.Verdicts {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if len(parts) == 0 {
		a.Printf("No saga was replayed: none of this definition has ended, except those that were skipped.\n")
		return
	}
	a.Printf("%d replayed: %s\n", len(results), strings.Join(parts, ", "))
}

// refuseDifferent replays the newest sagas of each definition, before any of them is published.
func refuseDifferent(a *cli.App, cl *Client, todo []publishing, limit int, refused []replay.Verdict) error {
	bad := 0
	for _, p := range todo {
		if p.kind != "definition" {
			continue
		}
		results, skipped, err := replaySagas(a, cl, p, nil, limit)
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if len(results) == 0 && skipped > 0 {
			return cli.Exit(cli.Failed, fmt.Errorf("%s: nothing was published: all %d sagas that have ended were skipped, so the text was not tried; to publish it as it is, apply it without --replay", p.file, skipped))
		}
		for _, r := range results {
			if slices.Contains(refused, r.Verdict) {
				bad++
				a.Note("%s: saga %s: %s: %s", p.file, r.Saga, r.Verdict, r.Difference())
			}
		}
	}
	if bad > 0 {
		return cli.Exit(cli.Failed, fmt.Errorf("nothing was published: --refuse-on applies to %d of the sagas above", bad))
	}
	return nil
}
