package llmstub_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/examples/llmstub"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"Say hello to the world, please"}]}`

func start(t *testing.T, cfg llmstub.Config) *llmstub.Server {
	t.Helper()
	s, err := llmstub.New(cfg).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask returns the response and its body; a broken connection is an error.
func ask(t *testing.T, s *llmstub.Server, key, body string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequest("POST", s.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set("Authorization", "Bearer k1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func content(t *testing.T, body string) (text, finish string) {
	t.Helper()
	var doc struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct{ Content string }
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Choices) != 1 {
		t.Fatalf("no completion: %v: %s", err, body)
	}
	return doc.Choices[0].Message.Content, doc.Choices[0].FinishReason
}

func TestAnswers(t *testing.T) {
	s := start(t, llmstub.Config{APIKey: "k1"})
	schema := func(doc string) string {
		return strings.Replace(hello, `"model":"m"`, `"model":"m","response_format":{"type":"json_schema","json_schema":{"schema":`+doc+`}}`, 1)
	}
	for _, tt := range []struct{ body, want, finish string }{
		{hello, "A stub's answer to: Say hello to the world, please", "stop"},
		{strings.Replace(hello, `"model"`, `"max_tokens":2,"model"`, 1), "A stub's", "length"},
		{schema(`{"type":"object","properties":{"queries":{"type":"array","items":{"type":"string"}},"n":{"type":["integer","null"]},"ok":{"type":"boolean"}}}`),
			`{"n":7,"ok":true,"queries":["queries 1","queries 2","queries 3","queries 4"]}`, "stop"},
		{schema(`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"enum":["x","y"]}}}`), `"x"`, "stop"},
		{schema(`{"type":"object","properties":{"d":{"type":"string","format":"date"},"c":{"const":[1]},"z":{"type":"null"},"u":{"anyOf":[{"items":{"type":"number"}}]}}}`),
			`{"c":[1],"d":"2026-01-31","u":[7,7,7,7],"z":null}`, "stop"},
	} {
		_, body, err := ask(t, s, "", tt.body)
		if err != nil {
			t.Fatal(err)
		}
		if text, finish := content(t, body); text != tt.want || finish != tt.finish {
			t.Errorf("got %s (%s), want %s (%s)", text, finish, tt.want, tt.finish)
		}
	}
}

// Generating an instance of a recursive schema ends.
func TestCircularSchema(t *testing.T) {
	s := start(t, llmstub.Config{})
	body := strings.Replace(hello, `"model":"m"`, `"model":"m","response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","items":{"$ref":"#"}}}}`, 1)
	if resp, _, err := ask(t, s, "", body); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestKeysAreBilledOnce(t *testing.T) {
	first := true
	s := start(t, llmstub.Config{Fault: func(llmstub.Call) llmstub.Fault {
		defer func() { first = false }()
		if first {
			return llmstub.Fault{Cut: 1}
		}
		return llmstub.Fault{}
	}})
	streamed := strings.Replace(hello, `"model"`, `"stream":true,"model"`, 1)
	if _, _, err := ask(t, s, "a", streamed); err == nil {
		t.Error("the connection did not break")
	}
	resp, body, err := ask(t, s, "a", streamed)
	if err != nil || resp.Header.Get("Idempotency-Replayed") != "true" || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the second time: %v, %v, %s", resp, err, body)
	}
	if resp, _, _ := ask(t, s, "a", hello); resp.StatusCode != 422 {
		t.Errorf("another body under the key: %d", resp.StatusCode)
	}
	resp, err = http.Get(s.URL + "/bills")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct{ Data []llmstub.Bill }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/chat/completions"
	hash, other := got.Data[0].Hash, got.Data[2].Hash
	if len(hash) != 64 || hash == other {
		t.Errorf("hashes of two bodies: %q, %q", hash, other)
	}
	want := []llmstub.Bill{
		{Number: 1, Path: path, Hash: hash, Key: "a", Model: "m", Status: 200, Input: 12, Output: 13, Billed: true},
		{Number: 2, Path: path, Hash: hash, Key: "a", Model: "m", Status: 200, Input: 12, Output: 13, Replayed: true, Whole: true},
		{Number: 3, Path: path, Hash: other, Key: "a", Model: "m", Status: 422},
	}
	if diff := cmp.Diff(want, got.Data); diff != "" {
		t.Errorf("bills (-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	var f llmstub.Fault
	s := start(t, llmstub.Config{APIKey: "k1", Models: []string{"m"}, Window: 30, Fault: func(llmstub.Call) llmstub.Fault { return f }})
	for _, tt := range []struct {
		fault  llmstub.Fault
		body   string
		status int
		says   string
	}{
		{llmstub.Fault{Status: 429, Code: "slow_down", RetryAfter: "7"}, hello, 429, "slow_down"},
		{llmstub.Fault{Status: 500, Usage: true}, hello, 500, `"usage":{"prompt_tokens":12,`},
		{llmstub.Fault{}, strings.Replace(hello, `"m"`, `"n"`, 1), 404, "model_not_found"},
		{llmstub.Fault{}, strings.Replace(hello, "Say", strings.Repeat("Say ", 40), 1), 400, "context_length_exceeded"},
		{llmstub.Fault{}, "{}", 400, "invalid_request"},
		{llmstub.Fault{Refusal: true}, hello, 200, `"refusal":"I cannot`},
		{llmstub.Fault{BadSchema: true}, hello, 200, `{\"not\"`},
		{llmstub.Fault{Malformed: true}, hello, 200, "<html>"},
		{llmstub.Fault{NoStream: true}, strings.Replace(hello, `"model"`, `"stream":true,"model"`, 1), 200, `"object":"chat.completion",`},
	} {
		f = tt.fault
		resp, body, err := ask(t, s, "", tt.body)
		if err != nil || resp.StatusCode != tt.status || !strings.Contains(body, tt.says) || resp.Header.Get("Retry-After") != tt.fault.RetryAfter {
			t.Errorf("%+v: %v, %v, %s", tt.fault, resp, err, body)
		}
	}
	r := httptest.NewRecorder()
	llmstub.New(llmstub.Config{APIKey: "k2"}).ServeHTTP(r, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(hello)))
	if r.Code != 401 {
		t.Errorf("without the key: %d", r.Code)
	}
}

// The same question twice gets the same response, which is billed once.
func Example() {
	s, err := llmstub.New(llmstub.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	for range 2 {
		r, _ := http.NewRequest("POST", s.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`))
		r.Header.Set("Idempotency-Key", "k-1")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		lines := 0
		for in := bufio.NewScanner(resp.Body); in.Scan(); lines++ {
		}
		resp.Body.Close()
		fmt.Printf("%d lines, replayed: %q\n", lines, resp.Header.Get("Idempotency-Replayed"))
	}
	for _, b := range s.Bills() {
		fmt.Println(b.Key, b.Input+b.Output, b.Billed, b.Replayed)
	}
	// Output:
	// 12 lines, replayed: ""
	// 12 lines, replayed: "true"
	// k-1 11 true false
	// k-1 11 false true
}
