package invariant

import (
	"bytes"
	"encoding/base64"
	"net/url"

	"recourse/journal"
)

// canary is a secret text, in the forms that it may have in a record.
type canary [][]byte

func newCanary(text string) canary {
	c := canary{[]byte(text)}
	if quoted, err := journal.Encode(text); err == nil {
		c = append(c, bytes.Trim(quoted, `"`))
	}
	for _, form := range []string{
		base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
		url.QueryEscape(text), url.PathEscape(text),
	} {
		c = append(c, []byte(form))
	}
	return c
}

// secrets checks invariant 19. Its text does not repeat the secret.
func (c *sagaCheck) secrets(s Saga) {
	for n, forms := range c.canaries {
		for _, r := range s.Records {
			if forms.in(r) {
				c.say(19, r.Seq, "record %d (%s %s) contains canary number %d", r.Seq, r.Kind, r.Path, n+1)
			}
		}
	}
}

func (c canary) in(r journal.Record) bool {
	for _, form := range c {
		if bytes.Contains(r.Data, form) || bytes.Contains([]byte(r.Key), form) {
			return true
		}
	}
	return false
}
