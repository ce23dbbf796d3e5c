package measure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
)

// agent is a process that is attached to a session.
type agent struct {
	engine Process
	id     uuid.UUID
	secret string
	token  string
}

// bookAction is the source of the action that agents call.
func bookAction(stub string) string {
	return `action: book
input: {trip: string}
http: POST ` + stub + `/do/book
body: {trip: "${input.trip}"}
in_doubt: retry
compensate: {http: "DELETE ` + stub + `/do/book/${output.id}"}
agents: auto
`
}

// open opens n sessions and attaches a process to each.
func (c *agents) open(ctx context.Context, n int) ([]*agent, error) {
	list := make([]*agent, n)
	for i := range list {
		var err error
		if list[i], err = openAgent(ctx, c.engine); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func openAgent(ctx context.Context, engine Process) (*agent, error) {
	opened, err := decoded[struct{ ID uuid.UUID }](do(ctx, http.MethodPost, engine.URL+"/v1/sessions", `{"name":"bench","actions":["book"],"max_calls":10000}`))
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	a := &agent{engine: engine, id: opened.ID}
	return a, a.attach(ctx)
}

// attach begins a new life. The earlier one's secret shows that it may end that life.
func (a *agent) attach(ctx context.Context) error {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it does not fail
	secret := base64.RawURLEncoding.EncodeToString(random)
	body := `{"holder":"bench","secret":"` + secret + `"`
	if a.secret != "" {
		body += `,"previous":"` + a.secret + `"`
	}
	if _, err := do(ctx, http.MethodPost, a.path("/attach"), body+"}"); err != nil {
		return fmt.Errorf("attach to a session: %w", err)
	}
	a.secret, a.token = secret, "rst_"+strings.ReplaceAll(a.id.String(), "-", "")+"_"+secret
	return nil
}

func (a *agent) path(rest string) string {
	return a.engine.URL + "/v1/sessions/" + a.id.String() + rest
}

// post makes a request with the token of the life.
func (a *agent) post(ctx context.Context, url string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+a.token)
	return r, nil
}

// send makes a request with the token of the life, and returns the body of the response.
func (a *agent) send(ctx context.Context, url, body string) ([]byte, error) {
	r, err := a.post(ctx, url, []byte(body))
	if err != nil {
		return nil, err
	}
	return bodyOf(r)
}

// commit ends the sessions.
func (c *agents) commit(ctx context.Context, list []*agent) error {
	for _, a := range list {
		if _, err := a.send(ctx, a.path("/commit"), "{}"); err != nil {
			return fmt.Errorf("commit a session: %w", err)
		}
	}
	return nil
}

// model returns the base URL of the model: at the remote service itself, or through recourse.
func (c *agents) model(through bool) string {
	if through {
		return c.engine.URL + "/llm/openai/v1"
	}
	return c.Stub.URL + strings.TrimSuffix(modelPath, chatPath)
}

const chatPath = "/chat/completions"

// answered is an answer of the model.
type answered struct {
	took, first time.Duration // until its end, and until its first text
	body        []byte
	replayed    bool
}

// ask asks the model: itself, or through recourse.
func (c *agents) ask(ctx context.Context, a *agent, body []byte, through bool) (answered, error) {
	c.asked.Add(1)
	return a.ask(ctx, c.model(through), body)
}

// ask sends a request to the model, and reads the answer to its end.
func (a *agent) ask(ctx context.Context, base string, body []byte) (answered, error) {
	r, err := a.post(ctx, base+chatPath, body)
	if err != nil {
		return answered{}, err
	}
	began := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	got := answered{replayed: resp.Header.Get("X-Recourse-Replayed") != ""}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		err = got.stream(resp.Body, began)
	} else {
		got.body, err = io.ReadAll(resp.Body)
	}
	got.took = time.Since(began)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %.300s", r.URL, resp.StatusCode, got.body)
	}
	return got, err
}

// stream reads server-sent events, up to the one that says that the answer is whole.
func (g *answered) stream(in io.Reader, began time.Time) error {
	lines, done := bufio.NewReader(in), false
	for {
		line, err := lines.ReadBytes('\n')
		if g.first == 0 && bytes.Contains(line, []byte(`"content":`)) {
			g.first = time.Since(began)
		}
		done = done || string(line) == "data: [DONE]\n"
		if g.body = append(g.body, line...); err == nil {
			continue
		}
		if err == io.EOF && done {
			return nil
		}
		return errors.Join(errors.New("the stream of an answer was cut"), err)
	}
}

// text returns the text of an answer that is one document.
func (g *answered) text() (string, error) {
	var doc struct{ Choices []struct{ Message message } }
	if err := json.Unmarshal(g.body, &doc); err != nil || len(doc.Choices) != 1 {
		return "", fmt.Errorf("the model has answered %.300s", g.body)
	}
	return doc.Choices[0].Message.Content, nil
}

// book has the effect of the action: by a request to the remote service itself, or by a call.
func (c *agents) book(ctx context.Context, a *agent, input []byte, through bool) (time.Duration, error) {
	c.made.Add(1)
	var r *http.Request
	var err error
	if through {
		r, err = a.post(ctx, a.path("/calls"), fmt.Appendf(nil, `{"action":"book","input":%s}`, input))
	} else if r, err = a.post(ctx, c.Stub.URL+"/do/book", input); err == nil {
		var key uuid.UUID
		key, err = uuid.NewV4()
		r.Header.Set("Idempotency-Key", key.String())
	}
	if err != nil {
		return 0, err
	}
	began := time.Now()
	b, err := bodyOf(r)
	took := time.Since(began)
	if err == nil && through && !bytes.Contains(b, []byte(`"status":"succeeded"`)) {
		err = fmt.Errorf("a call did not succeed: %.300s", b)
	}
	return took, err
}
