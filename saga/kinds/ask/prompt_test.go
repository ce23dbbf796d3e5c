package ask_test

import (
	"encoding/hex"
	"testing"

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
