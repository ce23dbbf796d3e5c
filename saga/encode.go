package saga

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"recourse/journal"
)

// Encode encodes the data of a record. The types of this package can always be encoded.
func Encode(v any) json.RawMessage {
	if e, ok := v.(encoder); ok {
		return e.encode()
	}
	b, err := journal.Encode(v)
	if err != nil {
		panic("saga: record data: " + err.Error())
	}
	return b
}

// RoundTrips reports whether decoding the encoded data certainly gives the data itself. Encoding
// compacts raw JSON, writes times in milliseconds, and replaces bytes that are not valid UTF-8.
func RoundTrips(data any, encoded json.RawMessage) bool {
	same := false
	switch d := data.(type) {
	case StartedData:
		same = d.Input != nil && dense(d.Input) && d.Origin == nil && (d.Labels == nil || len(d.Labels) > 0) && whole(d.Latest)
		for _, v := range d.Vars { // any order
			same = same && v != nil && dense(v)
		}
	case IntentData: // rendering writes compact JSON
		same = d.WakeAt == nil && d.Awaited == nil && (d.Request == nil || d.Request.Own == nil) && whole(d.Latest)
	case OutcomeData:
		same = d.RetryAt == nil && d.Latest == nil && d.Compensate == nil && dense(d.Result) && dense(d.Output) && dense(d.RetryState) && dense(d.Event)
	case CompensatingData:
		same = d.Residual == nil
	case FinishedData:
		same = d.Residual == nil && d.Doubts == nil && dense(d.Output)
	}
	return same && !bytes.Contains(encoded, replaced)
}

// replaced is how encoding/json writes a byte that is not valid UTF-8. It writes the character
// U+FFFD itself unescaped.
var replaced = []byte(`\ufffd`)

// whole reports whether a time is as it is read again: in whole milliseconds, UTC.
func whole(t *Time) bool {
	return t == nil || t.Location() == time.UTC && t.Nanosecond()%int(time.Millisecond) == 0
}

// dense reports whether a document is compact, so that encoding does not change it.
func dense(doc json.RawMessage) bool {
	inText := false
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			inText = !inText
		case '\\':
			i++
		case ' ', '\t', '\r', '\n':
			if !inText {
				return false
			}
		}
	}
	return true
}

// encoder is implemented by data that encodes itself, byte for byte as journal.Encode would.
// Intents and outcomes do, because they are most of all records, and reflection would be a tenth of
// a saga's cost on its lane. The ends of sagas do, because their outputs can be large.
type encoder interface{ encode() json.RawMessage }

func (d IntentData) encode() json.RawMessage {
	b := make([]byte, 0, 384)
	if d.Request != nil {
		b = d.Request.append(field(b, "request"))
	}
	b = textField(b, "request_hash", d.RequestHash)
	b = textField(b, "reserve", d.Reserve)
	if d.WakeAt != nil {
		b = append(field(b, "wake_at"), Encode(d.WakeAt)...)
	}
	if d.ReserveTokens != 0 {
		b = strconv.AppendInt(field(b, "reserve_tokens"), d.ReserveTokens, 10)
	}
	if d.Awaited != nil {
		b = append(field(b, "awaited"), Encode(d.Awaited)...)
	}
	b = rawField(b, "input", d.Input)
	if d.Latest != nil {
		b = append(field(b, "latest"), Encode(d.Latest)...)
	}
	return object(b, 0)
}

func (r *Request) append(b []byte) []byte {
	from := len(b)
	b = textField(b, "method", r.Method)
	b = textField(b, "url", r.URL)
	if len(r.Headers) > 0 {
		b = headers(field(b, "headers"), r.Headers)
	}
	b = rawField(b, "body", r.Body)
	if r.Task != nil {
		b = append(field(b, "task"), Encode(r.Task)...)
	}
	if r.Child != nil {
		b = append(field(b, "child"), Encode(r.Child)...)
	}
	if r.Own != nil {
		b = append(field(b, "own"), Encode(r.Own)...)
	}
	if r.Tool != nil {
		b = append(field(b, "mcp"), Encode(r.Tool)...)
	}
	return object(b, from)
}

func headers(b []byte, h map[string]string) []byte {
	from := len(b)
	names := make([]string, 0, 8)
	for name := range h { // any order
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = append(quoted(append(b, ','), name), ':')
		b = quoted(b, h[name])
	}
	return object(b, from)
}

func (d OutcomeData) encode() json.RawMessage {
	b := make([]byte, 0, 128+len(d.Result)+len(d.Output))
	if d.StatusCode != 0 {
		b = strconv.AppendInt(field(b, "status_code"), int64(d.StatusCode), 10)
	}
	b = rawField(b, "result", d.Result)
	if d.Error != nil {
		b = append(field(b, "error"), Encode(d.Error)...)
	}
	b = rawField(b, "output", d.Output)
	b = textField(b, "cost", d.Cost)
	if d.RetryAt != nil {
		b = append(field(b, "retry_at"), Encode(d.RetryAt)...)
	}
	b = textField(b, "next", string(d.Next))
	if d.Found != nil {
		b = strconv.AppendBool(field(b, "found"), *d.Found)
	}
	if d.Tokens != nil {
		b = append(field(b, "tokens"), Encode(d.Tokens)...)
	}
	b = rawField(b, "retry_state", d.RetryState)
	b = rawField(b, "event", d.Event)
	if d.AlreadyGone {
		b = strconv.AppendBool(field(b, "already_gone"), true)
	}
	b = textField(b, "never_started", d.NeverStarted)
	if d.Compensate != nil {
		b = append(field(b, "compensate"), Encode(d.Compensate)...)
	}
	b = textField(b, "hint", string(d.Hint))
	b = textField(b, "changed", d.Changed)
	if d.Stubbed {
		b = strconv.AppendBool(field(b, "stubbed"), true)
	}
	b = textField(b, "kept", d.Kept)
	if d.Latest != nil {
		b = append(field(b, "latest"), Encode(d.Latest)...)
	}
	return object(b, 0)
}

func (d FinishedData) encode() json.RawMessage {
	b := quoted(field(make([]byte, 0, 128+len(d.Output)), "status"), string(d.Status))
	if d.Reason != nil {
		b = append(field(b, "reason"), Encode(d.Reason)...)
	}
	b = rawField(b, "output", d.Output)
	if d.OutputError != nil {
		b = append(field(b, "output_error"), Encode(d.OutputError)...)
	}
	if len(d.Residual) > 0 {
		b = append(field(b, "residual"), Encode(d.Residual)...)
	}
	if len(d.Doubts) > 0 {
		b = append(field(b, "doubts"), Encode(d.Doubts)...)
	}
	return object(b, 0)
}

// field appends the beginning of a field of an object, with a comma before it. object ends the
// object and replaces its first comma.
func field(b []byte, name string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	return append(b, `":`...)
}

// object ends the object whose fields begin at from.
func object(b []byte, from int) []byte {
	if len(b) == from {
		b = append(b, ',')
	}
	b[from] = '{' // instead of the first comma
	return append(b, '}')
}

// textField appends a text field, unless the text is empty.
func textField(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return quoted(field(b, name), text)
}

// rawField appends a compacted JSON document, unless it is empty.
func rawField(b []byte, name string, doc json.RawMessage) []byte {
	if len(doc) == 0 {
		return b
	}
	if dense(doc) {
		return append(field(b, name), doc...)
	}
	w := bytes.NewBuffer(field(b, name))
	if err := json.Compact(w, doc); err != nil {
		panic("saga: record data: " + err.Error())
	}
	return w.Bytes()
}

// quoted appends a text as JSON.
func quoted(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, Encode(text)...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
