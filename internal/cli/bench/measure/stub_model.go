package measure

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// modelPath is the path of the stub's language model, a minimal one with OpenAI's chat completions.
// Its answer has four bytes for each token of max_tokens. The name of the model is the kind of its
// texts, and how long it takes to answer: prose-300ms.
const modelPath = "/v1/chat/completions"

// model is a model of the stub.
type model struct {
	texts texts
	takes time.Duration
}

func (m model) name() string { return string(m.texts) + "-" + m.takes.String() }

// texts is a kind of texts.
type texts string

const (
	prose   texts = "prose"   // random words, which are compressed about as well as real ones
	letters texts = "letters" // random letters and digits, which can hardly be compressed
)

// text returns a random text of n bytes, without characters that JSON escapes.
func (t texts) text(random *rand.Rand, n int) string {
	if t == letters {
		return randomLetters(random, n)
	}
	var b strings.Builder
	b.Grow(n + 16)
	for b.Len() < n {
		at := random.Float64() // a few words are frequent, as in real texts
		b.WriteString(words[int(at*at*at*float64(len(words)))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// answerParts is the number of events with text in a streamed answer.
const answerParts = 16

// modelRequest is what the stub reads of a request.
type modelRequest struct {
	Model         string
	MaxTokens     int `json:"max_tokens"`
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// answer serves the model.
func (s *Stub) answer(w http.ResponseWriter, r *http.Request) {
	var q modelRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, `{"error":{"message":"the body is not JSON"}}`, http.StatusBadRequest)
		return
	}
	kind, duration, _ := strings.Cut(q.Model, "-")
	takes, err := time.ParseDuration(duration)
	if err != nil {
		http.Error(w, `{"error":{"message":"there is no such model"}}`, http.StatusNotFound)
		return
	}
	time.Sleep(takes)
	s.mu.Lock()
	s.l.Asks++
	n := s.l.Asks
	s.mu.Unlock()
	text := texts(kind).text(rand.New(rand.NewPCG(uint64(n), 1)), 4*q.MaxTokens)
	usage := fmt.Sprintf(`{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}`, q.MaxTokens, q.MaxTokens+1)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"chat-%d","object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":%s}`, n, q.Model, text, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(choices, usage string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"chat-%d","object":"chat.completion.chunk","model":%q,"choices":[%s],"usage":%s}`+"\n\n", n, q.Model, choices, usage)
		_ = http.NewResponseController(w).Flush()
	}
	part := max(len(text)/answerParts, 1)
	for from := 0; from < len(text); from += part {
		event(fmt.Sprintf(`{"index":0,"delta":{"content":"%s"}}`, text[from:min(from+part, len(text))]), "null")
	}
	event(`{"index":0,"delta":{},"finish_reason":"stop"}`, "null")
	if q.StreamOptions.IncludeUsage {
		event("", usage)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

func randomLetters(random *rand.Rand, n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var b strings.Builder
	b.Grow(n)
	for range n {
		b.WriteByte(alphabet[random.IntN(len(alphabet))])
	}
	return b.String()
}

// words are those of prose.
var words = func() []string {
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]string, 512)
	for i := range list {
		list[i] = strings.ToLower(randomLetters(random, 2+random.IntN(8)))
	}
	return list
}()
