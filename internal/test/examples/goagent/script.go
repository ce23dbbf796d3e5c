package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"recourse/api/client"
)

// act is one thing that a scripted agent does. Exactly one of the first fields is set.
type act struct {
	Ask   string          // asks a model this, with the client packages' base URL for OpenAI
	Body  json.RawMessage // sends this to Anthropic's model
	Call  string          // calls this action with Input
	Tool  string          // calls this action with Input, as a tool of the MCP server
	Own   string          // does this own step with Input
	Undo  string          // undoes this call or own step
	Sleep string
	Exit  int

	Input  json.RawMessage
	Once   string
	Stream bool // of Ask
	Now    bool // of Call: does not wait for its end
}

// scripted does what SCRIPT says, a JSON list of acts, and prints what it gets.
func scripted() error {
	var script []act
	if err := json.Unmarshal([]byte(os.Getenv("SCRIPT")), &script); err != nil {
		return fmt.Errorf("SCRIPT: %w", err)
	}
	s, err := client.AttachFromEnv()
	if err != nil {
		return err
	}
	for _, a := range script {
		if err := a.do(s); err != nil {
			return err
		}
	}
	return nil
}

func (a act) do(s *client.Session) error {
	switch {
	case a.Ask != "":
		body := fmt.Sprintf(`{"model": "small", "stream": %t, "messages": [{"role": "user", "content": %q}]}`, a.Stream, a.Ask)
		return send(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", os.Getenv("OPENAI_API_KEY"), body)
	case a.Body != nil:
		return send(os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", os.Getenv("ANTHROPIC_API_KEY"), string(a.Body))
	case a.Tool != "":
		body := fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": %q, "arguments": %s}}`, a.Tool, a.Input)
		return send(os.Getenv("RECOURSE_MCP_URL"), os.Getenv("RECOURSE_TOKEN"), body)
	case a.Call != "":
		c := client.Call{Action: a.Call, Input: a.Input, Once: a.Once}
		if a.Now {
			c.Patience = -1
		}
		v, err := s.Call(ctx, c)
		if err != nil {
			problem(a.Call, err)
			return nil
		}
		say(v.Path, v.Status, v.Key, v.Replayed, v.Output)
	case a.Own != "":
		out, err := s.Step(ctx, client.Step{ID: a.Own, Input: a.Input, Effect: "none"}, func(context.Context, client.Work) (any, error) {
			say("does", a.Own)
			return object{"by": a.Own}, nil
		})
		if err != nil {
			problem(a.Own, err)
			return nil
		}
		say(a.Own, out)
	case a.Undo != "":
		problem("undo", s.Undo(ctx, a.Undo))
	case a.Sleep != "":
		d, err := time.ParseDuration(a.Sleep)
		if err != nil {
			return err
		}
		time.Sleep(d)
	default:
		os.Exit(a.Exit)
	}
	return nil
}

// send sends a request with a token, and prints the response.
func send(url, token, body string) error {
	text := strings.NewReader(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, text) //nolint:gosec // the server of the test
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Anthropic-Version": "2023-06-01", "Mcp-Protocol-Version": "2025-11-25"} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // likewise
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return errors.Join(errors.New("the response is not whole"), err)
	}
	say(resp.StatusCode, resp.Header.Get("X-Recourse-Step"), string(bytes.TrimSpace(answer)))
	return nil
}
