package machine

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// These limits, in bytes, say how much of a saga is searched. A row is written at each change of
// status, and a search reads the texts of 1,500 sagas. Names and labels have limits of their own.
const (
	maxSearchedValue    = 512  // for one value of the input or the output, or one sentence about the saga
	maxSearchedDocument = 2048 // for the input, for the output, and for all sentences about the saga
)

// searchText returns the text that searches for sagas read: the definition, the reason, the inbox
// entries, the failures of steps that the saga continued without, the values of the labels, and the
// strings and numbers of the input and the output, each on its own line. All of it is in the saga's
// journal, so it contains no secret.
func (m *Machine) searchText(inbox []saga.Entry) string {
	b := make([]byte, 0, 256)
	b = append(b, m.started.Definition...)
	for _, name := range slices.Sorted(maps.Keys(m.labels)) {
		b = append(append(b, '\n'), m.labels[name]...)
	}
	said := textLines{b: b, room: maxSearchedDocument}
	if r := m.Reason(); r != nil {
		said.add(r.Code, r.Step, r.Error, r.Title, r.Detail)
	}
	for _, e := range inbox {
		said.add(e.Title, e.Detail)
	}
	for _, n := range m.failedSteps {
		if said.room <= 0 {
			break
		}
		if f := n.forward.failure; n.forward.state == failed && f != nil {
			said.add(f.Code, f.Title, f.Detail)
		}
	}
	input := textLines{b: said.b, room: maxSearchedDocument}
	input.document(m.started.Input)
	output := textLines{b: input.b, room: maxSearchedDocument}
	if f := m.finished; f != nil {
		output.document(f.Output)
	}
	return journal.SearchText(string(output.b))
}

// textLines appends texts, one on each line, as long as there is room.
type textLines struct {
	b    []byte
	room int
}

func (l *textLines) add(texts ...string) {
	for _, text := range texts {
		line(l, text)
	}
}

func line[T string | []byte](l *textLines, text T) {
	most := max(min(l.room, maxSearchedValue), 0)
	if len(text) > most { // do not cut a character
		text = T(strings.ToValidUTF8(string(text[:most]), ""))
	}
	if len(text) > 0 {
		l.b = append(append(l.b, '\n'), text...)
		l.room -= len(text) + 1
	}
}

// document adds the strings and the numbers of valid JSON in document order, without member names.
func (l *textLines) document(raw []byte) {
	for i := 0; i < len(raw) && l.room > 0; {
		switch c := raw[i]; {
		case c == '"':
			end := stringEnd(raw, i)
			rest := bytes.TrimLeft(raw[end:], " \t\r\n")
			if len(rest) == 0 || rest[0] != ':' {
				line(l, unquoted(raw[i+1:end-1]))
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			n := bytes.IndexAny(raw[i:], ",]} \t\r\n")
			if n < 0 {
				n = len(raw) - i
			}
			line(l, raw[i:i+n])
			i += n
		default:
			i++
		}
	}
}

// stringEnd returns the offset after the JSON string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(raw))
}

// unquoted returns the text between the quotes of a JSON string, as much of it as can matter.
func unquoted(quoted []byte) []byte {
	end := 0
	for end < len(quoted) && end < maxSearchedValue {
		switch {
		case quoted[end] != '\\':
			end++
		case bytes.HasPrefix(quoted[end:], []byte(`\u`)):
			end += 6
		default:
			end += 2
		}
	}
	quoted = quoted[:min(end, len(quoted))]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted
	}
	var text string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, quoted, []byte{'"'}), &text) // invalid JSON has no text
	return []byte(text)
}
