package diff

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"recourse/api/ui/format"
	"recourse/saga/expr"
)

// Bounds of a diff of documents, which may be prompts of many megabytes.
const (
	mostText   = 1 << 20 // bytes of a text
	mostRead   = 8_000   // lines of a text
	mostLines  = 400     // lines of the diff
	mostWide   = 400     // characters of a line
	beforeThat = 80      // of them before the first difference
)

// Values compares what two JSON documents have at a JSON pointer (RFC 6901): texts line by line,
// and other values as indented JSON. It returns nil if they are equal. A value that a document does
// not have is an empty text.
func Values(before, after json.RawMessage, pointer string) []Line {
	return Texts(textAt(before, pointer), textAt(after, pointer))
}

// Texts compares two texts like [Lines], and shortens long lines to what differs, and long diffs.
func Texts(before, after string) []Line {
	before, _ = format.FirstLines(start(before, mostText), mostRead)
	after, _ = format.FirstLines(start(after, mostText), mostRead)
	lines := Lines(before, after)
	for i := 0; i < len(lines); i++ {
		went, came := 0, 0
		for i+went < len(lines) && lines[i+went].Mark == "-" {
			went++
		}
		for i+went+came < len(lines) && lines[i+went+came].Mark == "+" {
			came++
		}
		for k := range min(went, came) {
			shorten(&lines[i+k].Text, &lines[i+went+k].Text)
		}
		i += max(went+came-1, 0)
	}
	for i := range lines {
		lines[i].Text = format.Cut(mostWide+2, lines[i].Text)
	}
	if more := len(lines) - mostLines; more > 0 {
		lines = append(lines[:mostLines], Line{Mark: skipMark, Text: format.Plural(more, "more line is", "more lines are") + " left out"})
	}
	return lines
}

// start returns the beginning of a text, of at most n bytes.
func start(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// shorten leaves out what two lines have in common, except for some characters before the first
// difference, if they are long.
func shorten(a, b *string) {
	if len(*a) <= mostWide && len(*b) <= mostWide {
		return
	}
	same := 0
	for same < len(*a) && same < len(*b) && (*a)[same] == (*b)[same] {
		same++
	}
	from := max(same-beforeThat, 0)
	for from > 0 && !utf8.RuneStart((*a)[from]) {
		from--
	}
	if from == 0 {
		return
	}
	*a, *b = skipMark+(*a)[from:], skipMark+(*b)[from:]
}

// textAt returns the value at a pointer: a text as it is, another value as indented JSON, and "" if
// there is none.
func textAt(doc json.RawMessage, pointer string) string {
	value, ok := at(doc, pointer)
	if !ok {
		return ""
	}
	var text string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text
	}
	return format.JSON(value)
}

// at returns the value at a pointer; ok is false if there is none.
func at(doc json.RawMessage, pointer string) (_ json.RawMessage, ok bool) {
	for pointer != "" {
		var token string
		token, pointer, _ = strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
		if pointer != "" {
			pointer = "/" + pointer
		}
		var list []json.RawMessage
		if json.Unmarshal(doc, &list) == nil {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			doc = list[i]
			continue
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(doc, &fields) != nil {
			return nil, false
		}
		if doc, ok = fields[expr.TokenName(token)]; !ok {
			return nil, false
		}
	}
	return doc, len(doc) > 0
}
