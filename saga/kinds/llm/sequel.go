package llm

import (
	"encoding/json"
	"fmt"
	"slices"

	"recourse/internal/httptext"
	"recourse/journal"
	"recourse/saga"
)

// maxQuoted limits the quote of a bad answer in a request for its repair.
const maxQuoted = 16 << 10

// hint is the difference of the next request from the last one: another model, or a repair.
type hint struct {
	Model  string  `json:"model,omitempty"`
	Course *course `json:"course,omitempty"`
	Repair *repair `json:"repair,omitempty"`
}

type repair struct {
	Answer  string `json:"answer"`
	Problem string `json:"problem"`
}

// Next implements saga.Sequel. After a failure that may pass, the next model of the list is called,
// in the first round without a wait. A model that does not exist, or is too small, is removed from
// the list, as long as there is one that was not called. An answer that breaks the schema is sent
// back once to be repaired.
//
// An attempt that this process interrupted says nothing about the model: the same request is sent
// again, with the same key.
func (b *Body) Next(r saga.Request, a saga.Answer, v saga.Verdict, _ int) (json.RawMessage, bool) {
	_, at, err := opened(r)
	if err != nil || v.Error == nil {
		return nil, false
	}
	switch code := v.Error.Code; {
	case code == CodeMismatch:
		if at.Repaired {
			return nil, false
		}
		return encode(hint{Repair: &repair{Answer: httptext.Clip(textOf(a.Body), maxQuoted), Problem: problem(v.Error)}}), true
	case v.Class == journal.Refused && (code == CodeModel || code == CodeContext):
		if at.Fresh == 0 {
			return nil, false
		}
		return encode(at.next("")), true
	case v.Class == journal.Transient && len(at.Next) > 0 && a.Code != saga.Interrupted && a.Code != "not_sent":
		c, _, _ := opened(r)
		return encode(at.next(c.Model)), at.Fresh > 0
	}
	return nil, false
}

// next returns the hint for the next model. again is the model to return to after the others, ""
// for none.
func (at course) next(again string) hint {
	after := course{Next: slices.Clone(at.Next[1:]), Fresh: max(at.Fresh-1, 0), Repaired: at.Repaired}
	if again != "" {
		after.Next = append(after.Next, again)
	}
	return hint{Model: at.Next[0], Course: &after}
}

func problem(f *saga.Failure) string {
	if f.Detail == "" {
		return f.Title
	}
	return f.Title + ": " + f.Detail
}

// textOf returns the text of an answer, even if the answer is otherwise invalid.
func textOf(body json.RawMessage) string {
	var doc answer
	if json.Unmarshal(body, &doc) != nil || len(doc.Choices) == 0 {
		return ""
	}
	return string(doc.Choices[0].Message.Content)
}

// Follow implements saga.Sequel.
func (b *Body) Follow(r saga.Request, text json.RawMessage) (saga.Request, error) {
	c, at, err := opened(r)
	if err != nil {
		return saga.Request{}, err
	}
	var h hint
	if err := json.Unmarshal(text, &h); err != nil {
		return saga.Request{}, fmt.Errorf("llm: hint: %w", err)
	}
	if h.Model != "" {
		c.Model = h.Model
	}
	if h.Course != nil {
		at = *h.Course
	}
	if h.Repair != nil {
		at.Repaired = true
		if h.Repair.Answer != "" { // some providers refuse empty messages
			c.Messages = append(c.Messages, message("assistant", h.Repair.Answer))
		}
		c.Messages = append(c.Messages, message("user", "Your answer cannot be used: "+h.Repair.Problem+". Answer again with JSON that fits the schema, and nothing else."))
	}
	return b.address(c, at)
}
