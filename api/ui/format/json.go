package format

import (
	"bytes"
	"encoding/json"
)

// JSON indents JSON; its numbers keep their digits. A deeply nested document that would grow too
// much stays as it is: each value has the indents of everything around it, so a response of 4 MB
// could become a page of gigabytes.
func JSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if indents(raw) > 4*len(raw)+16<<10 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// indents returns the maximum of bytes of line breaks and indents that json.Indent adds to a
// document.
func indents(raw json.RawMessage) (n int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
			n += 1 + 2*depth
		case ']', '}':
			depth--
			n += 1 + 2*depth
		case ',':
			n += 1 + 2*depth
		case ':':
			n++
		}
	}
	return n
}
