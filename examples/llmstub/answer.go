package llmstub

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	bytesPerToken = 4
	perMessage    = 4 // tokens
	bytesPerPiece = 16
	shownWords    = 8
)

// usage is the token usage of a call.
type usage struct {
	Input  int `json:"prompt_tokens"`
	Output int `json:"completion_tokens"`
	Total  int `json:"total_tokens"`
}

// reply is a response before any network fault.
type reply struct {
	Status    int
	ID        string
	Text      string
	Refusal   string
	Calls     []toolCall
	Truncated bool // at the maximum of tokens
	Usage     *usage
}

// answer generates the response to a question.
func (q *question) answer(f Fault, a *actor) reply {
	r := reply{Status: http.StatusOK, ID: newID(a.rng)}
	if !q.Uncounted {
		q.say(&r, f, a)
	}
	out := tokens(r.Text+r.Refusal) + callTokens(r.Calls)
	if q.Most > 0 && out > q.Most {
		r.Truncated, r.Calls = true, nil
		r.Text = strings.ToValidUTF8(r.Text[:min(len(r.Text), q.Most*bytesPerToken)], "")
		out = tokens(r.Text + r.Refusal)
	}
	r.Usage = &usage{Input: q.tokens(), Output: out, Total: q.tokens() + out}
	return r
}

// say fills in the content of a response.
func (q *question) say(r *reply, f Fault, a *actor) {
	switch {
	case f.Refusal:
		r.Refusal = "I cannot help with that."
		return
	case f.BadSchema:
		r.Text = `{"not": "what was asked for"`
		return
	}
	items := q.ticket()
	if r.Calls = a.calls(q, items); len(r.Calls) > 0 {
		r.Text = a.announce(r.Calls)
		return
	}
	switch {
	case q.JSON:
		var schema any
		_ = json.Unmarshal(q.Schema, &schema) // without a schema anything is allowed
		r.Text = string(encode((&maker{root: schema}).make(schema, "text", 0)))
	case len(items) > 0 && len(q.Tools) > 0:
		r.Text = a.conclude(len(items))
	default:
		words := strings.Fields(q.Messages[len(q.Messages)-1].Text)
		r.Text = "A stub's answer to: " + strings.Join(words[:min(len(words), shownWords)], " ")
	}
}

func newID(rng *rand.Rand) string {
	b := make([]byte, 12)
	for i := range b {
		b[i] = byte(rng.UintN(256))
	}
	return hex.EncodeToString(b)
}

// pieces cuts a text into what one event of a stream has of it.
func pieces(text string) (list []string) {
	for rest := text; rest != ""; {
		n := min(bytesPerPiece, len(rest))
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		list = append(list, rest[:n])
		rest = rest[n:]
	}
	return list
}
