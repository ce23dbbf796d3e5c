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
	"strings"
	"time"

	"recourse/internal/cli"
)

// The size of one request of `recourse start --batch`. The server allows 1,000 starts and 8 MiB.
const (
	batchStarts = 1000
	batchBytes  = 4 << 20
)

// batchRun is a run of `recourse start --batch`.
type batchRun struct {
	*Start
	app *cli.App
	cl  *Client

	starts  []*batchStart // read, and not printed yet
	size    int           // of their lines
	line    int           // the number of the last line read
	started int
	found   int // they were started before
	refused int

	same struct { // the last refused lines, which follow each other and have the same error
		first, last int
		text        string
	}
	said map[string]int // the first line with the beginning of an error, which has its advice
}

// batchStart is a line of the file, and its result.
type batchStart struct {
	Line   int             `json:"line"`
	Key    string          `json:"idempotency_key,omitempty"`
	Status int             `json:"status"`
	ID     string          `json:"id,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	text   []byte
}

// passing reports whether the server may take the start later.
func (s *batchStart) passing() bool {
	p := &Problem{}
	_ = json.Unmarshal(s.Error, p) // without a type, the status decides
	p.Status = s.Status
	return p.passing()
}

// runBatch starts a saga for each line of a file. Up to 1,000 starts share a request.
func (c *Start) runBatch(a *cli.App, cl *Client) error {
	if c.Input != "" || c.DefVersion != "" || len(c.Label) > 0 || c.Budget != "" || c.Wait != 0 {
		return cli.Exit(cli.Usage, errors.New("--batch: the lines of the file have the input, version, labels and budget of each start, and there is no --wait: leave these flags out"))
	}
	file, err := a.Open(c.Batch)
	if err != nil {
		return err
	}
	defer file.Close()
	b := &batchRun{Start: c, app: a, cl: cl, said: make(map[string]int)}
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return cli.Exit(cli.Failed, fmt.Errorf("--batch: %w", err))
		}
		if sendErr := b.add(line); sendErr != nil {
			return sendErr
		}
		if err != nil {
			break
		}
	}
	if err := b.send(); err != nil {
		return err
	}
	a.Note("%d started, %d started before, %d refused", b.started, b.found, b.refused)
	if b.refused > 0 {
		return cli.Exit(cli.Failed, nil)
	}
	return nil
}

// add adds a line to the next request. It sends the one before if the line does not fit into it.
func (b *batchRun) add(line []byte) error {
	b.line++
	text := b.complete(bytes.TrimSpace(line))
	if len(text) == 0 {
		return nil
	}
	if len(b.starts) == batchStarts || len(b.starts) > 0 && b.size+len(text) > batchBytes {
		if err := b.send(); err != nil {
			return err
		}
	}
	b.starts, b.size = append(b.starts, &batchStart{Line: b.line, text: text}), b.size+len(text)+1
	return nil
}

// complete adds the definition and the key of the command line to a start that has none. The server
// refuses a line that is not an object.
func (b *batchRun) complete(line []byte) []byte {
	var fields map[string]json.RawMessage
	if b.Definition == "" && b.Key == "" || json.Unmarshal(line, &fields) != nil || fields == nil {
		return line
	}
	add := func(name, value string) {
		if fields[name] != nil {
			return
		}
		// Before the other fields, which stay as they are: the server sees their errors.
		rest := line[1:]
		if line = fmt.Appendf(nil, "{%q: %s", name, strconv.Quote(value)); len(fields) > 0 {
			line = append(line, ", "...)
		}
		fields[name], line = json.RawMessage{}, append(line, rest...)
	}
	if b.Definition != "" {
		add("definition", b.Definition)
	}
	if b.Key != "" {
		add("idempotency_key", b.Key+"-"+strconv.Itoa(b.line))
	}
	return line
}

// send sends the starts, and prints their results. It sends starts again for as long as the server
// is at its limits.
func (b *batchRun) send() error {
	for open := b.starts; len(open) > 0; {
		again, wait, err := b.request(open)
		if err != nil {
			return err
		}
		if open = again; len(open) == 0 {
			break
		}
		b.app.Note("the server does not take %d of the starts now: sending them again in %s", len(open), wait)
		if !b.cl.Pause(wait) {
			return cli.Exit(cli.Failed, errors.New("interrupted: give the same command again; what is started already is not started twice"))
		}
	}
	return b.results()
}

// results prints the results of the starts.
func (b *batchRun) results() error {
	for _, s := range b.starts {
		if err := b.print(s); err != nil {
			return err
		}
	}
	b.explain()
	b.starts, b.size = nil, 0
	return b.app.OutputError()
}

// request sends starts and reads their results. again are those to send again after wait.
func (b *batchRun) request(open []*batchStart) (again []*batchStart, wait time.Duration, err error) {
	var body []byte
	for _, s := range open {
		body = append(append(body, s.text...), '\n')
	}
	r, err := b.cl.Do(Call{Method: http.MethodPost, Path: "/v1/sagas:batch", Body: body, Header: map[string]string{"Content-Type": "application/x-ndjson"}})
	// The limits count the request, too. An error without a type is that of a proxy.
	if p, ok := errors.AsType[*Problem](err); ok && p.Type != "" && p.passing() {
		return open, max(time.Second, p.retryAfter), nil
	}
	if err != nil {
		return nil, 0, err
	}
	n := 0
	for line := range bytes.Lines(r.Body) {
		var result struct {
			batchStart
			RetryAfter int `json:"retry_after"`
		}
		if err := (Answer{Body: line}).Into(&result); err != nil || n == len(open) {
			return nil, 0, err
		}
		s := open[n]
		s.Key, s.Status, s.ID, s.Error = result.Key, result.Status, result.ID, result.Error
		if s.passing() {
			again, wait = append(again, s), max(wait, time.Second, time.Duration(result.RetryAfter)*time.Second)
		}
		n++
	}
	if n < len(open) {
		return nil, 0, b.cl.unreachable(fmt.Errorf("the response ends after %d of %d starts", n, len(open)))
	}
	return again, wait, nil
}

// print prints the result of a start.
func (b *batchRun) print(s *batchStart) error {
	switch s.Status {
	case http.StatusCreated:
		b.started++
	case http.StatusOK:
		b.found++
	default:
		b.refused++
	}
	switch {
	case b.Machine():
		if b.app.YAML { // each result is a YAML document
			b.app.Printf("---\n")
		}
		return b.app.Encode(s)
	case s.Error == nil:
		b.explain()
		b.app.Printf("%s  %s\n", s.ID, s.Key)
	default:
		if text := problemOf(s.Status, s.Error).Error(); text != b.same.text {
			b.explain()
			b.same.first, b.same.text = s.Line, text
		}
		b.same.last = s.Line
	}
	return nil
}

// maxSaid bounds the errors that a batch remembers.
const maxSaid = 1000

// explain prints the error of the last refused lines. Advice that was printed before is not
// repeated.
func (b *batchRun) explain() {
	same := b.same
	if b.same.text = ""; same.text == "" {
		return
	}
	head, details, _ := strings.Cut(same.text, "\n")
	if line, ok := b.said[head]; ok {
		head = fmt.Sprintf("as line %d", line)
	} else if len(b.said) < maxSaid {
		b.said[head] = same.first
	}
	where := fmt.Sprintf("line %d", same.first)
	if same.last > same.first {
		where = fmt.Sprintf("lines %d to %d", same.first, same.last)
	}
	b.app.Note("%s: %s", where, strings.TrimSuffix(head+"\n"+details, "\n"))
}
