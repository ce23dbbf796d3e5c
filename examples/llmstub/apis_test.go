package llmstub_test

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"recourse/examples/llmstub"
)

// Each API has every fault, and errors in its own form.
func TestFaults(t *testing.T) {
	for name := range talks() {
		for _, tt := range []struct {
			fault  llmstub.Fault
			status int    // 0: the connection breaks
			openAI string // what a response of OpenAI's APIs contains
			other  string // and one of Anthropic's
		}{
			{llmstub.Fault{Status: 429, Code: "slow_down", RetryAfter: "7"}, 429, `"code":"slow_down"`, `"type":"rate_limit_error"`},
			{llmstub.Fault{Status: 500}, 500, `"type":"stub_error"`, `"type":"api_error"`},
			{llmstub.Fault{Status: 529}, 529, `"type":"stub_error"`, `"type":"overloaded_error"`},
			{llmstub.Fault{Malformed: true}, 200, "{this is not JSON", "{this is not JSON"},
			{llmstub.Fault{Refusal: true}, 200, "I cannot help", "I cannot help"},
			{llmstub.Fault{BadSchema: true}, 200, `not`, `not`},
			{llmstub.Fault{NoStream: true}, 200, `"usage":`, `"usage":`},
			{llmstub.Fault{Delay: time.Millisecond}, 200, `"usage":`, `"usage":`},
			{llmstub.Fault{Cut: 2}, 0, "", ""},
		} {
			s := start(t, llmstub.Config{APIKey: "k1", Fault: func(llmstub.Call) llmstub.Fault { return tt.fault }})
			c := talks()[name]
			resp, body, err := post(t, s, c.path(), c.request(true))
			says := tt.openAI
			if name == "messages" {
				says = tt.other
			}
			switch {
			case tt.status == 0:
				if err == nil {
					t.Errorf("%s, %+v: the connection did not break: %s", name, tt.fault, body)
				}
			case err != nil:
				t.Errorf("%s, %+v: %v", name, tt.fault, err)
			case resp.StatusCode != tt.status || !strings.Contains(body, says) || resp.Header.Get("Retry-After") != tt.fault.RetryAfter:
				t.Errorf("%s, %+v: %d %s", name, tt.fault, resp.StatusCode, body)
			}
			if bills := s.Bills(); len(bills) != 1 || bills[0].Billed != (tt.fault.Status == 0) || bills[0].Path != c.path() {
				t.Errorf("%s, %+v: bills %+v", name, tt.fault, bills)
			}
		}
	}
}

// A stream without its end has none of its last events.
func TestNoDone(t *testing.T) {
	ends := map[string]string{"chat": "finish_reason\":\"tool", "responses": "event: response.completed", "messages": "event: message_delta"}
	for name, c := range talks() {
		for _, without := range []bool{true, false} {
			s := start(t, llmstub.Config{Fault: func(llmstub.Call) llmstub.Fault { return llmstub.Fault{NoDone: without} }})
			_, body, err := post(t, s, c.path(), c.request(true))
			if err != nil || strings.Contains(body, ends[name]) == without {
				t.Errorf("%s without its end %v: %v, %s", name, without, err, body)
			}
		}
	}
}

// A response that is longer than allowed is cut, and says so.
func TestMaximum(t *testing.T) {
	s := start(t, llmstub.Config{})
	limits := map[string]string{"chat": "max_completion_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
	ends := map[string]string{"chat": "length", "responses": "incomplete", "messages": "max_tokens"}
	for name := range talks() {
		for _, stream := range []bool{false, true} {
			c := talks()[name]
			r := c.request(stream)
			r[limits[name]] = 2
			_, body, err := post(t, s, c.path(), r)
			if err != nil {
				t.Fatal(err)
			}
			if stream {
				body = string(c.join(t, events(t, body)))
			}
			if a := c.read(t, []byte(body)); a.Ended != ends[name] || a.Out != 2 || len(a.Calls) != 0 {
				t.Errorf("%s, stream %v: %+v", name, stream, a)
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	s := start(t, llmstub.Config{})
	for path, bodies := range map[string][]any{
		chatPath:         {object{}, "text"},
		responsesPath:    {object{}, "text", object{"input": []any{object{"type": "reasoning"}}}},
		messagesPath:     {object{}, "text", object{"messages": []any{object{"role": "user", "content": "Hi"}}}},
		"/v1/embeddings": {object{}, "text", object{"input": []any{1}}},
	} {
		for _, body := range bodies {
			if resp, got, err := post(t, s, path, body); err != nil || resp.StatusCode != 400 || !strings.Contains(got, `"message":`) {
				t.Errorf("%s %v: %v, %v, %s", path, body, resp, err, got)
			}
		}
	}
	if n := len(s.Bills()); n != 0 {
		t.Errorf("%d bills", n)
	}
}

// A later request may name a response or its items instead of repeating them.
func TestStoredResponses(t *testing.T) {
	s := start(t, llmstub.Config{OneByOne: true})
	c := &responsesTalk{[]any{object{"role": "user", "content": ticket}}}
	for _, stored := range []bool{true, false} {
		r := c.request(false)
		r["store"] = stored
		_, body, err := post(t, s, responsesPath, r)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			ID     string
			Output []struct {
				ID     string
				CallID string `json:"call_id"`
			}
		}
		decode(t, []byte(body), &doc)
		result := object{"type": "function_call_output", "call_id": doc.Output[1].CallID, "output": "{}"}
		previous, references := c.request(false), c.request(false)
		previous["previous_response_id"], previous["input"] = doc.ID, []any{result}
		references["input"] = append(c.input[:1:1], object{"type": "item_reference", "id": doc.Output[0].ID}, object{"type": "item_reference", "id": doc.Output[1].ID}, result)
		for status, r := range map[int]object{400: previous, 404: references} {
			resp, body, err := post(t, s, responsesPath, r)
			if err != nil {
				t.Fatal(err)
			}
			if !stored {
				if resp.StatusCode != status {
					t.Errorf("what was not stored was found: %d %s", resp.StatusCode, body)
				}
				continue
			}
			if a := (&responsesTalk{}).read(t, []byte(body)); len(a.Calls) != 1 || line(t, a.Calls[0]) != "refund o-1 1910" {
				t.Errorf("the calls after the first: %+v", a)
			}
		}
	}
}

func TestEmbeddings(t *testing.T) {
	s := start(t, llmstub.Config{})
	var numbers struct {
		Data []struct {
			Index     int
			Embedding []float64
		}
		Usage struct {
			In int `json:"prompt_tokens"`
		}
	}
	_, body, err := post(t, s, "/v1/embeddings", object{"model": "m", "input": []any{"tea", "coffee"}, "dimensions": 3})
	if err != nil {
		t.Fatal(err)
	}
	decode(t, []byte(body), &numbers)
	if len(numbers.Data) != 2 || len(numbers.Data[1].Embedding) != 3 || numbers.Usage.In != 3 {
		t.Fatalf("two embeddings: %+v", numbers)
	}
	var encoded struct{ Data []struct{ Embedding string } }
	_, body, err = post(t, s, "/v1/embeddings", object{"model": "m", "input": "coffee", "encoding_format": "base64"})
	if err != nil {
		t.Fatal(err)
	}
	decode(t, []byte(body), &encoded)
	raw, err := base64.StdEncoding.DecodeString(encoded.Data[0].Embedding)
	if err != nil || len(raw) != 4*8 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	for i, want := range numbers.Data[1].Embedding {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); float64(got) != want {
			t.Errorf("value %d: %v encoded, %v as a number", i, got, want)
		}
	}
	if bills := s.Bills(); len(bills) != 2 || !bills[1].Billed || bills[1].Output != 0 {
		t.Errorf("bills %+v", bills)
	}
}

// Counting tokens costs nothing, and gives the count that the message is billed for.
func TestCountTokens(t *testing.T) {
	s := start(t, llmstub.Config{})
	c := talks()["messages"]
	r := c.request(false)
	a := turn(t, s, c, false)
	delete(r, "max_tokens")
	_, body, err := post(t, s, messagesPath+"/count_tokens", r)
	if err != nil {
		t.Fatal(err)
	}
	var count struct {
		Tokens int `json:"input_tokens"`
	}
	decode(t, []byte(body), &count)
	if bills := s.Bills(); count.Tokens != a.In || len(bills) != 2 || bills[1].Billed {
		t.Errorf("%d tokens counted, %d used, bills %+v", count.Tokens, a.In, bills)
	}
}

func TestModels(t *testing.T) {
	s := start(t, llmstub.Config{Models: []string{"m"}})
	resp, err := http.Get(s.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if want := `{"data":[{"created":0,"id":"m","object":"model","owned_by":"stub"}],"object":"list"}`; err != nil || string(body) != want {
		t.Errorf("%s, %v, want %s", body, err, want)
	}
}
