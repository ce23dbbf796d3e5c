package ask_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
)

// The stored form of a request is the same request: its body, put together again, has the same
// identity and place, and the same members.
func TestKeepAndAssemble(t *testing.T) {
	for path, bodies := range map[string][]string{
		"/chat/completions": {
			`{"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"content": "c ", "role": "user"}]}`,
			`{"model": "m", "messages": []}`, `{"model": "m"}`, `{"model": "m", "messages": "text"}`, `{"model":"m","messages":[ 1.0, null ],"metadata":{}}`,
		},
		"/responses": {`{"model": "m", "input": []}`, `{"model": "m", "input": "text"}`, `{"model": "m", "input": [{"type": "message", "role": "user", "content": "a"}]}`},
	} {
		route, ok := ask.Find(llm.OpenAIAPI, path)
		if !ok {
			t.Fatal(path)
		}
		for _, body := range bodies {
			p, err := ask.Parse(route, []byte(body), "", nil, ask.Rules{})
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			stored := make(map[string][]byte)
			for _, b := range p.Keep(ask.NewIndex()) {
				if stored[hex.EncodeToString(b.Hash[:])], err = ask.Unpack(b); err != nil {
					t.Fatal(err)
				}
			}
			got, err := p.Assemble(func(hash string) ([]byte, error) { return stored[hash], nil })
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			again, err := ask.Parse(route, got, "", nil, ask.Rules{})
			if err != nil || again.Identity != p.Identity || again.Place != p.Place || canonical(t, got) != canonical(t, []byte(body)) {
				t.Errorf("%s came back as %s: %v", body, got, err)
			}
		}
	}
}

func canonical(t *testing.T, doc []byte) string {
	t.Helper()
	v, err := expr.Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(expr.AppendJSON(nil, v))
}

// What a provider may read otherwise than recourse is refused: another model, tool, or limit would
// be asked than was checked.
func TestParseAmbiguous(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		want       error
	}{
		{"/chat/completions", `{"model": "m", "model": "n", "messages": []}`, ask.ErrTwice},
		{"/chat/completions", `{"model": "m", "messages": [], "mod\u0065l": "n"}`, ask.ErrTwice},
		{"/chat/completions", `{"model": "m", "messages": [], "temperature": 0, "temperature": 1}`, ask.ErrTwice},
		{"/chat/completions", ` {"model": "m", "messages": [{"role": "user", "role": "assistant", "content": "a"}]}`, ask.ErrTwice},
		{"/responses", `{"model": "m", "input": "a", "tools": [{"type": "function"}, {"type": "mcp", "type": "function"}]}`, ask.ErrTwice},
		{"/chat/completions", `{"model": "m", "messages": [], "stream": true, "stream_options": {"include_usage": false, "include_usage": true}}`, ask.ErrTwice},
		{"/chat/completions", `{"model": "m", "Model": "n", "messages": []}`, ask.ErrCase},
		{"/chat/completions", `{"MODEL": "m", "messages": []}`, ask.ErrCase},
		{"/chat/completions", `{"model": "m", "messages": [], "\u017ftream": true}`, ask.ErrCase},
		{"/responses", `{"model": "m", "input": "a", "tools": [{"type": "function", "Type": "mcp"}]}`, ask.ErrCase},
		{"/chat/completions", `{"model": "m", "messages": [], "n": 1e2}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "n": 2.0}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "n": "2"}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "n": 0}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "n": 1073741824}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "max_tokens": -1}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "max_tokens": 3e2}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "max_tokens": 8589934592, "n": 2}`, ask.ErrNumber},
		{"/chat/completions", `{"model": "m", "messages": [], "max_completion_tokens": 99999999999999999999}`, ask.ErrNumber},
		{"/responses", `{"model": "m", "input": "a", "max_output_tokens": [1]}`, ask.ErrNumber},
		{"/responses", `{"model": "m", "prompt": {"id": "pmpt_1"}}`, ask.ErrTemplate},
		{"/responses", `{"model": "m", "input": "a", "Prompt": {"id": "pmpt_1"}}`, ask.ErrCase},
		{"/responses", `{"model": "m", "input": [{"type": "item_reference", "ID": "i"}]}`, ask.ErrCase},
		// What is not ambiguous, or says nothing to recourse, passes.
		{"/responses", `{"model": "m", "input": "a", "prompt": null}`, nil},
		{"/chat/completions", `{"model": "m", "messages": [{"role": "user", "content": {"a": 1, "a": 2}}], "n": null, "max_tokens": null, "stream_options": null}`, nil},
		{"/chat/completions", `{"model": "m", "messages": [], "Temperature": 1, "tools": [{"type": "function", "function": {"type": "a", "Type": "b"}}, 1, []]}`, nil},
		{"/embeddings", `{"model": "m", "input": "a", "max_tokens": 1e2}`, nil},
	} {
		route, ok := ask.Find(llm.OpenAIAPI, tt.path)
		if !ok {
			t.Fatal(tt.path)
		}
		if _, err := ask.Parse(route, []byte(tt.body), "", nil, ask.Rules{}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.body, err, tt.want)
		}
	}
}

// The reservation is for all the answers of a response, and has a cost, however many they are.
func TestReserveChoices(t *testing.T) {
	body := ask.Step(llm.Config{Prices: map[string]llm.Price{"m": {Input: "1", Output: "10", MaxOutput: 1000}}}).Body.(*ask.Body)
	route, _ := ask.Find(llm.OpenAIAPI, "/chat/completions")
	for limits, want := range map[string]int64{
		`"max_tokens": 300`: 300, `"max_tokens": 300, "n": 4`: 1200, `"n": 4`: 4000, `"max_tokens": null`: 1000,
		`"max_tokens": 300, "max_completion_tokens": 200`: 300, `"max_tokens": 200, "max_completion_tokens": 300`: 300,
		`"max_tokens": 1000000000, "n": 128`: llm.MaxUsage,
	} {
		p, err := ask.Parse(route, []byte(`{"model": "m", "messages": [], `+limits+`}`), "", nil, ask.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		if got := body.Reserve(saga.Request{Body: saga.Encode(p.Question)}); got.Output != want || got.Cost.IsZero() {
			t.Errorf("%s: %+v, want %d", limits, got, want)
		}
	}
}

// A stream of several answers is whole at its end, or once each of them has ended.
func TestReadChoices(t *testing.T) {
	route, _ := ask.Find(llm.OpenAIAPI, "/chat/completions")
	const first, second, other = `{"choices": [{"index": 0, "finish_reason": "stop"}]}`, `{"choices": [{"index": 1, "finish_reason": "length"}]}`, `{"choices": [{"index": 1, "delta": {"content": "a"}}]}`
	for _, tt := range []struct {
		choices int64
		events  []string
		want    bool
	}{
		{0, []string{first}, true},
		{2, []string{first, other}, false},
		{2, []string{first, first}, false},
		{2, []string{other, first, second}, true},
		{2, []string{`{"choices": [{"index": 0, "finish_reason": "stop"}, {"index": 1, "finish_reason": "stop"}]}`}, true},
		{2, []string{first, other, "[DONE]"}, true},
	} {
		r := ask.NewReading(route, &ask.Question{Choices: tt.choices})
		for _, data := range tt.events {
			r.Event([]byte(data))
		}
		if r.Whole != tt.want {
			t.Errorf("%d answers, %q: whole %v", tt.choices, tt.events, r.Whole)
		}
	}
}

// The session knows what a request takes from the provider by its id: the response that it
// continues, and the items whose contents it does not have.
func TestParseReferences(t *testing.T) {
	route, _ := ask.Find(llm.OpenAIAPI, "/responses")
	user := `{"role": "user", "content": "a"}, `
	for item, want := range map[string]bool{
		`{"type": "item_reference", "id": "i"}`:                 true,
		`{"type": "item_reference", "id": "i", "content": "a"}`: true,
		`{"id": "i"}`:               true,
		`{"type": null, "id": "i"}`: true,
		`{"type": "reasoning", "id": "i", "summary": []}`:                                      true,
		`{"type": "image_generation_call", "id": "i"}`:                                         true,
		`{"type": "web_search_call", "id": "i", "status": "completed", "action": {}}`:          true,
		`{"type": "reasoning", "id": "i", "summary": [], "encrypted_content": "a"}`:            false,
		`{"type": "message", "role": "assistant", "id": "i", "content": []}`:                   false,
		`{"role": "assistant", "id": "i", "content": "a"}`:                                     false,
		`{"type": "function_call", "id": "i", "call_id": "c", "name": "n", "arguments": "{}"}`: false,
		`{"type": "function_call_output", "id": "i", "call_id": "c", "output": "a"}`:           false,
		`{"type": "function_call", "call_id": "c", "name": "n"}`:                               false,
	} {
		p, err := ask.Parse(route, []byte(`{"model": "m", "previous_response_id": "r", "input": [`+user+item+`]}`), "", nil, ask.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Equal(p.Refers, []string{"r", "i"}); got != want || len(p.Refers) == 0 || p.Refers[0] != "r" {
			t.Errorf("%s: %q", item, p.Refers)
		}
	}
	place := func(input string) string {
		p, err := ask.Parse(route, []byte(`{"model": "m", "input": [`+input+`]}`), "", nil, ask.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Place
	}
	if place(user+`{"type": "item_reference", "id": "i"}, {"role": "user", "content": "b"}`) != place(user+`{"type": "item_reference", "id": "i"}, {"role": "user", "content": "c"}`) ||
		place(user+`{"type": "item_reference", "id": "i"}`) == place(user+`{"type": "item_reference", "id": "j"}`) {
		t.Error("an item that is named is not part of the place of a request")
	}
}
