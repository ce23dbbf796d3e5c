package secrets

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// leaks says in which form a text still has a secret after redaction, "" for none.
func leaks(redact func(string) string, secret, before, after string) string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		return ""
	}
	for name, form := range map[string]string{"plain": secret, "JSON": string(quoted[1 : len(quoted)-1]), "query": url.QueryEscape(secret), "path": url.PathEscape(secret)} {
		if len(secret) >= MinRedacted && strings.Contains(redact(before+form+after), form) && strings.Trim(form, "*") != "" {
			return name
		}
	}
	return ""
}

func redacts(secrets ...string) func(string) string {
	var r redactor
	for _, s := range secrets {
		r.add(s)
	}
	return r.redact
}

// FuzzRedact: two secrets, of which one may be part of the other, in any text.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"sesame-open", "canary/1 +2", "\"quoted\"\\", "aaaaaa", "<&>é\x00\n", "******", "%2F%2F%2F"} {
		f.Add(s, "sesame", "before ", " after")
		f.Add(s, s+s, s[:3], s[3:])
	}
	f.Fuzz(func(t *testing.T, one, two, before, after string) {
		redact := redacts(one, two)
		for _, s := range []string{one, two} {
			// Around it stands what cannot be the beginning or end of another occurrence.
			if strings.ContainsAny(s, "|*") || strings.Contains(before+after, "|") {
				continue
			}
			if form := leaks(redact, s, before+"|", "|"+after); form != "" {
				t.Errorf("%q is still there (%s) in %q", s, form, redact(before+"|"+s+"|"+after))
			}
		}
	})
}

func TestFuzzRedactCanFail(t *testing.T) {
	for name, redact := range map[string]func(string) string{
		"nothing":     func(s string) string { return s },
		"as it is":    func(s string) string { return strings.ReplaceAll(s, `open "sesame"`, "***") },
		"another one": redacts("another"),
	} {
		if leaks(redact, `open "sesame"`, "|", "|") == "" {
			t.Errorf("not noticed: %s", name)
		}
	}
}
