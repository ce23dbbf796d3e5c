package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/export"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga/machine"
)

// Journal is `recourse journal`.
type Journal struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"saga" help:"The saga's id, or its first 8 characters or more."`
	Follow bool   `short:"f" help:"Follow the saga until it ends."`
}

// Run prints a journal: as a story, or one record per line with the saga's id in it, as `verify`
// reads it.
func (c *Journal) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	var v machine.View
	if _, err := cl.Get(SagaPath(c.Saga), &v); err != nil {
		return err
	}
	teller := story.New(cl.definition(v.Definition, v.Version))
	show := func(raw []byte) error {
		if c.Machine() {
			if a.YAML { // each record is a YAML document
				a.Printf("---\n")
			}
			return a.Raw(fmt.Appendf(nil, "{\"saga\":%q,%s", v.ID, bytes.TrimPrefix(raw, []byte("{"))))
		}
		var r journal.Record
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("%w: %w", export.ErrFormat, err)
		}
		seq := strconv.FormatInt(r.Seq, 10)
		for _, l := range teller.Tell(r) {
			a.Printf("%5s  %s\n", seq, l.Format(teller.Width(), a.Colour))
			seq = "" // further lines of the record
		}
		return nil
	}
	return cl.stream(v.ID, c.Follow, show, a.Remark)
}

// Records reads a saga's journal, as far as it goes now.
func (c *Client) Records(id string) (list []journal.Record, _ error) {
	err := c.stream(id, false, func(raw []byte) error {
		var r journal.Record
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("%w: %w", export.ErrFormat, err)
		}
		list = append(list, r)
		return nil
	}, nil)
	return list, err
}

// errCut means that the response ended early.
var errCut = errors.New("the server's response ended early: try again")

// retryStream is the delay before a broken stream is requested again.
const retryStream = 500 * time.Millisecond

// away is the maximum time that a server may be down while its journal is followed.
const away = time.Minute

// stream shows the records, and with follow also new ones until the saga has ended. If the server
// goes down, stream waits for it, and calls lost with a text, and with "" when the server is back.
func (c *Client) stream(id string, follow bool, show func(raw []byte) error, lost func(text string)) error {
	accept, prefix := "application/x-ndjson", ""
	if follow {
		accept, prefix = "text/event-stream", "data:"
	}
	last := ""
	var answered time.Time
	gone := false
	for {
		resp, err := c.open(Call{Method: http.MethodGet, Path: SagaPath(id, "journal"), accept: accept, Header: map[string]string{"Last-Event-ID": last}})
		if follow && cli.ExitCode(err) == cli.Unreachable && time.Since(answered) < away && c.Pause(retryStream) {
			if !gone {
				lost("the server does not respond: retrying")
			}
			gone = true
			continue
		}
		if err != nil {
			return err
		}
		if gone {
			lost("")
		}
		gone = false
		ended, err := records(resp, prefix, &last, show)
		answered = time.Now()
		resp.Body.Close()
		if follow && errors.Is(err, errCut) {
			err = nil
		}
		if err != nil || ended || !follow {
			return err
		}
		// The stream broke or the server stopped: continue after the last shown record.
		if !c.Pause(retryStream) {
			return cli.Exit(cli.Failed, nil)
		}
	}
}

// records shows the records of one response. ended is true if the last one was terminal.
func records(resp *http.Response, prefix string, last *string, show func([]byte) error) (ended bool, err error) {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	lines.Split(wholeLine)
	for lines.Scan() {
		raw, ok := bytes.CutPrefix(lines.Bytes(), []byte(prefix))
		raw = bytes.TrimSpace(raw)
		if !ok || len(raw) == 0 {
			continue
		}
		var head struct {
			Seq  json.Number  `json:"seq"`
			Kind journal.Kind `json:"kind"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return false, fmt.Errorf("%w: %w", export.ErrFormat, err)
		}
		if err := show(raw); err != nil {
			return false, err
		}
		*last = head.Seq.String()
		ended = head.Kind == journal.Finished
	}
	if err := lines.Err(); err != nil {
		return ended, fmt.Errorf("%w: %w", errCut, err)
	}
	return ended, nil
}

// wholeLine is a bufio.SplitFunc for lines. What follows the last one belongs to a line that was
// cut, even if a proxy ends the response as if it were whole.
func wholeLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}
