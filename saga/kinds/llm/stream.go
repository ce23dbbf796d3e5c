package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"recourse/internal/httptext"
)

// Limits of an answer: of the part that is kept, or that is one event, and of the stream, which
// adds an envelope to each token.
const (
	MaxBody   = 8 << 20
	maxStream = 256 << 20
)

var (
	// ErrTooLarge says that an answer is over a limit.
	ErrTooLarge = errors.New("the response is larger than 8 MiB")
	// ErrBroken says that a stream is not one of completions.
	ErrBroken = errors.New("an event of the stream is no JSON object")
)

// ReadStream reads a completion that arrives as server-sent events, and returns it as one
// chat.completion, in the form of an answer that was not streamed. It reads no further than the end
// of the completion. reserve is called before it keeps so many bytes.
//
// After an error the document is the part that had arrived, because its usage counts. The error is
// [ErrTooLarge], [ErrBroken], io.EOF if the stream ended before the completion, or an error of in
// or reserve.
func ReadStream(in io.Reader, reserve func(bytes int) error) (json.RawMessage, error) {
	limited := &io.LimitedReader{R: in, N: maxStream}
	s := &assembly{reserve: reserve}
	err := events(limited, reserve, s.take)
	switch {
	case s.whole() && !errors.Is(err, ErrTooLarge): // only its usage can be missing
		err = nil
	case limited.N <= 0:
		err = ErrTooLarge
	}
	return s.document(), err
}

// events reads server-sent events (the WHATWG's, section 9.2.6) and passes the data of each to
// take, until the end of in, or the first error, which it returns. Comments, other fields and
// events without data are skipped. An event that is cut off by the end of in still counts, because
// some providers do not end the last one. reserve is called before an event takes so many bytes.
func events(in io.Reader, reserve func(bytes int) error, take func(data []byte) error) error {
	all := lines{in: bufio.NewReaderSize(in, 16<<10), reserve: reserve}
	var data []byte
	dispatch := func() error {
		if len(data) == 0 {
			return nil
		}
		err := take(bytes.TrimSuffix(data, []byte("\n")))
		data = data[:0]
		return err
	}
	for first := true; ; first = false {
		text, err := all.next()
		if first {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		name, value, _ := bytes.Cut(text, []byte(":"))
		switch {
		case errors.Is(err, ErrTooLarge):
			return err
		case len(text) == 0 && err == nil:
			if err := dispatch(); err != nil {
				return err
			}
		case string(name) == "data":
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
			if len(data) > MaxBody {
				return ErrTooLarge
			}
			if err := reserve(2 * len(data)); err != nil { // the data, and the values decoded from it
				return err
			}
		}
		if err != nil {
			if e := dispatch(); e != nil && errors.Is(err, io.EOF) {
				return e
			}
			return err
		}
	}
}

// lines reads lines that end in \n, \r or \r\n. It requests no byte after the end of a line,
// because that may take long to arrive.
type lines struct {
	in      *bufio.Reader
	cr      bool                  // the last line ended in \r: a \n after it belongs to it
	reserve func(bytes int) error // called before a line takes so many bytes
}

// next returns a line without its end. Text before an error is a line, too.
func (l *lines) next() ([]byte, error) {
	var text []byte
	for {
		if _, err := l.in.Peek(1); err != nil {
			return text, err
		}
		here, _ := l.in.Peek(l.in.Buffered())
		if l.cr && here[0] == '\n' {
			_, _ = l.in.Discard(1)
			l.cr = false
			continue
		}
		end := bytes.IndexAny(here, "\r\n")
		if l.cr = end >= 0 && here[end] == '\r'; end >= 0 {
			text = append(text, here[:end]...)
			_, _ = l.in.Discard(end + 1)
			return text, nil
		}
		text = append(text, here...)
		_, _ = l.in.Discard(len(here))
		if len(text) > MaxBody {
			return nil, ErrTooLarge
		}
		if err := l.reserve(2 * len(text)); err != nil { // a growing slice also has room for the next bytes
			return nil, err
		}
	}
}

// assembly is a completion that arrives in chunks.
type assembly struct {
	reserve           func(bytes int) error // called before it takes so many bytes
	id, model, finish string
	content, refusal  strings.Builder
	calls             []*calling
	called            int // bytes of the calls
	usage, fault      json.RawMessage
	done              bool // [DONE] has arrived
}

// chunk is one event. Some providers write message for delta.
type chunk struct {
	ID      string
	Model   string
	Choices []struct {
		Index        int
		Delta        piece
		Message      piece
		FinishReason string `json:"finish_reason"`
	}
	Usage json.RawMessage
	Error json.RawMessage
}

type piece struct {
	Content content
	Refusal string
	Calls   []callPiece `json:"tool_calls"`
}

// callPiece is a part of a call of a tool. The first part of a call has its id and name.
type callPiece struct {
	Index    *int // nil: a call of its own
	ID       string
	Function struct{ Name, Arguments string }
}

// calling is a call of a tool that arrives in pieces.
type calling struct {
	id, name  string
	arguments strings.Builder
}

// take adds the data of one event, or of several that were written as one. It returns io.EOF after
// the last.
func (s *assembly) take(data []byte) error {
	if err := s.add(data); !errors.Is(err, ErrBroken) {
		return err
	}
	for one := range bytes.SplitSeq(data, []byte("\n")) {
		if err := s.add(one); err != nil {
			return err
		}
	}
	return nil
}

func (s *assembly) add(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	if string(data) == "[DONE]" {
		s.done = true
		return io.EOF
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil || data[0] != '{' {
		return ErrBroken
	}
	set(&s.id, c.ID)
	set(&s.model, c.Model)
	keep(&s.usage, c.Usage, nil)
	keep(&s.fault, c.Error, json.RawMessage("{}"))
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		more := len(choice.Delta.Content) + len(choice.Message.Content) + len(choice.Delta.Refusal) + len(choice.Message.Refusal)
		if err := s.reserve(2 * (s.content.Len() + s.refusal.Len() + s.called + more)); err != nil {
			return err
		}
		for _, p := range slices.Concat(choice.Delta.Calls, choice.Message.Calls) {
			if err := s.call(p); err != nil {
				return err
			}
		}
		s.content.WriteString(string(choice.Delta.Content + choice.Message.Content))
		s.refusal.WriteString(choice.Delta.Refusal + choice.Message.Refusal)
		set(&s.finish, choice.FinishReason)
	}
	if s.content.Len()+s.refusal.Len()+s.called > MaxBody {
		return ErrTooLarge
	}
	return nil
}

// call adds a part of a call.
func (s *assembly) call(p callPiece) error {
	at := len(s.calls)
	if p.Index != nil {
		at = *p.Index
	}
	if at < 0 || at > len(s.calls) {
		return ErrBroken
	}
	if at == len(s.calls) {
		s.calls = append(s.calls, &calling{})
	}
	c := s.calls[at]
	set(&c.id, p.ID)
	set(&c.name, p.Function.Name)
	s.called += perCall + len(p.ID) + len(p.Function.Name) + len(p.Function.Arguments)
	if err := s.reserve(2 * (s.content.Len() + s.refusal.Len() + s.called)); err != nil {
		return err
	}
	c.arguments.WriteString(p.Function.Arguments)
	return nil
}

// perCall is more than a call takes in memory besides its texts.
const perCall = 128

func set(to *string, text string) {
	if text != "" {
		*to = text
	}
}

// keep keeps a part of a chunk. If a journal would not accept it (nested too deep, half a surrogate
// pair, not UTF-8), it keeps otherwise.
func keep(to *json.RawMessage, doc, otherwise json.RawMessage) {
	if len(doc) == 0 || string(doc) == "null" {
		return
	}
	clean, code, _ := httptext.EncodeBody("application/json", doc, nil)
	if *to = clean; code != "" {
		*to = otherwise
	}
}

// whole reports whether the answer ended by itself.
func (s *assembly) whole() bool { return s.done || s.finish != "" || s.fault != nil }

// document returns the completion as one chat.completion, in the form of an answer that was not
// streamed.
func (s *assembly) document() json.RawMessage {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type toolCall struct {
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	type message struct {
		Role    string     `json:"role"`
		Content string     `json:"content"`
		Refusal *string    `json:"refusal"`
		Calls   []toolCall `json:"tool_calls,omitempty"`
	}
	type choice struct {
		Index        int     `json:"index"`
		Message      message `json:"message"`
		FinishReason *string `json:"finish_reason"`
	}
	said := message{Role: "assistant", Content: s.content.String(), Refusal: optional(s.refusal.String())}
	for _, c := range s.calls {
		said.Calls = append(said.Calls, toolCall{c.id, "function", function{c.name, c.arguments.String()}})
	}
	return encode(struct {
		ID      string          `json:"id,omitempty"`
		Object  string          `json:"object"`
		Model   string          `json:"model,omitempty"`
		Choices []choice        `json:"choices"`
		Usage   json.RawMessage `json:"usage,omitempty"`
		Error   json.RawMessage `json:"error,omitempty"`
	}{s.id, "chat.completion", s.model,
		[]choice{{0, said, optional(s.finish)}}, s.usage, s.fault})
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
