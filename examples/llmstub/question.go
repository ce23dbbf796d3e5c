package llmstub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// question is a request, in the form that the APIs share.
type question struct {
	Model    string
	Messages []message
	Tools    []tool
	Choice   string          // the tool that must be called, or one of the constants below; empty: the model decides
	Single   bool            // the response may have only one tool call
	JSON     bool            // the response must be an instance of Schema
	Schema   json.RawMessage // nil if anything is allowed
	Most     int             // maximum of tokens in the response; 0 for no limit
	Stream   bool

	// IncludeUsage is the option of streamed chat completions.
	IncludeUsage bool
	// Input is that of a request for embeddings, and Floats whether they are returned as numbers.
	Input      []string
	Floats     bool
	Dimensions int
	// Stored says that later requests may name the response or its parts.
	Stored bool
	// Uncounted requests use no tokens of output: embeddings and counts of tokens.
	Uncounted bool
	// Free requests are not billed.
	Free bool
}

const (
	anyTool = "\x00any"
	noTool  = "\x00none"
)

// message is one of a conversation. The role of results is toolRole.
type message struct {
	Role  string
	Text  string
	Calls []toolCall
}

const (
	userRole      = "user"
	assistantRole = "assistant"
	toolRole      = "tool"
)

// tool is a tool that the model may call.
type tool struct {
	Name   string
	Schema json.RawMessage // of its arguments
}

// toolCall is a call of a tool. The APIs put a prefix of their own before the id.
type toolCall struct {
	ID, Name  string
	Arguments string // a JSON object
}

// refusal is why a request gets no answer.
type refusal struct {
	Status    int
	Code, Why string
}

func invalid(why string) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_request", why}
}

// api is one of the forms in which requests arrive and responses leave.
type api interface {
	parse(h http.Header, body []byte, known *memory) (*question, *refusal)
	// document is a response in one piece, and events are the same response as a stream.
	document(q *question, a reply) any
	events(q *question, a reply, f Fault) []event
	// problem is the body of an error; used may be nil.
	problem(r refusal, used *usage) any
}

// event is a server-sent event of a response.
type event struct {
	Text string
	Part bool // it has a piece of the response, so the faults count it
	Last bool // it belongs to the end that Fault.NoDone leaves out
}

// memory has what the stub has answered, for requests that name it.
type memory struct {
	mu        sync.Mutex
	messages  map[string]message   // by the id of an item of a response
	responses map[string][]message // by the id of a response: the conversation with its end
}

func newMemory() *memory {
	return &memory{messages: make(map[string]message), responses: make(map[string][]message)}
}

func (m *memory) store(q *question, a reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	said := message{Role: assistantRole, Text: a.Text + a.Refusal}
	m.messages[messagePrefix+a.ID] = said
	for _, c := range a.Calls {
		m.messages[itemPrefix+c.ID] = message{Role: assistantRole, Calls: []toolCall{c}}
	}
	said.Calls = a.Calls
	m.responses[responsePrefix+a.ID] = append(slices.Clip(q.Messages), said)
}

func (m *memory) message(id string) (message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, ok := m.messages[id]
	return one, ok
}

func (m *memory) conversation(id string) ([]message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, ok := m.responses[id]
	return all, ok
}

// tokens counts the tokens of the prompt.
func (q *question) tokens() int {
	sum := 0
	for _, m := range q.Messages {
		sum += perMessage + tokens(m.Text) + callTokens(m.Calls)
	}
	for _, t := range q.Tools {
		sum += tokens(t.Name) + tokens(string(t.Schema))
	}
	for _, s := range q.Input {
		sum += tokens(s)
	}
	return sum
}

func tokens(s string) int { return (len(s) + bytesPerToken - 1) / bytesPerToken }

func callTokens(calls []toolCall) int {
	sum := 0
	for _, c := range calls {
		sum += tokens(c.Name) + tokens(c.Arguments)
	}
	return sum
}

// hash identifies a request by its path and its body, whatever the order of keys and the white
// space.
func hash(path string, body []byte) string {
	var doc any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	_ = d.Decode(&doc) // the caller has decoded it before
	sum := sha256.Sum256(append([]byte(path+"\n"), encode(doc)...))
	return hex.EncodeToString(sum[:])
}

// text returns the text of a message's content, with its parts joined.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // any other content has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
