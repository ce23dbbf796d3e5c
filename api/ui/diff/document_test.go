package diff

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	const before = `{"model": "m", "messages": [{"role": "system", "content": "one\ntwo\nthree"}], "a/b": 1, "": {"x~y": "old"}}`
	const after = `{"model": "m", "messages": [{"role": "system", "content": "one\n2\nthree"}, {"role": "user"}], "a/b": 2, "": {"x~y": "new"}}`
	for pointer, want := range map[string]string{
		"/messages/0/content": " one -two +2  three",
		"/messages/0/role":    "",
		"/messages/1":         `+{ +  "role": "user" +}`,
		"/messages/x":         "",
		"/a~1b":               "-1 +2",
		"//x~0y":              "-old +new",
		"/nowhere/at/all":     "",
	} {
		var got []string
		for _, l := range Values(json.RawMessage(before), json.RawMessage(after), pointer) {
			got = append(got, l.Mark+l.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", pointer, strings.Join(got, " "), want)
		}
	}
	if got := Values(json.RawMessage(before), json.RawMessage(after), ""); len(got) < 5 {
		t.Errorf("the whole documents differ by %v", got)
	}
	if got := Values(nil, json.RawMessage(`not JSON`), "/x"); got != nil {
		t.Errorf("unreadable documents differ by %v", got)
	}
}

// Long lines begin shortly before their difference, and cuts do not break characters.
func TestTextsAreShortened(t *testing.T) {
	long := strings.Repeat("ä", 2000)
	lines := Texts(long+"one"+long, long+"two"+long)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []string{"one", "two"} {
		text := lines[i].Text
		if !strings.Contains(text, want) || len([]rune(text)) > mostWide+3 || !strings.HasPrefix(text, "…ä") || strings.Contains(text, "\ufffd") {
			t.Errorf("line %d: %s", i, text)
		}
	}
	if lines := Texts("", strings.Repeat("x\n", 5000)); len(lines) != mostLines+1 || !strings.HasPrefix(lines[mostLines].Text, "4600 more lines") {
		t.Errorf("%d lines", len(lines))
	}
	if lines := Texts(strings.Repeat("a\n", mostText/2), strings.Repeat("b\n", mostText/2)); len(lines) != mostLines+1 || !strings.HasPrefix(lines[mostLines].Text, "15600 more lines") {
		t.Errorf("%d lines: %v", len(lines), lines[len(lines)-1])
	}
	if lines := Texts("a\nb\nc", "a\nx\ny\nc"); len(lines) != 5 {
		t.Errorf("%v", lines)
	}
	Texts(strings.Repeat("€", mostText), "x") // the cut is within a character
}
