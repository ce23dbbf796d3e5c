package expr

import (
	"fmt"
	"slices"
	"strings"
)

// A sealed rendering is text in which ${secrets.NAME} refers to a secret and $${ stands for ${. It
// may be journaled and compared. Secrets are inserted only when a request is sent.
const (
	secretOpen    = "${secrets."
	maxSecretName = 128
)

// Seal makes a sealed rendering of text without secrets: every ${ in it is written as $${.
func Seal(text string) string { return seal(text) }

func seal(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// isSecretName reports whether name is a valid name of a secret: letters, digits and _, not
// starting with a digit.
func isSecretName(name string) bool {
	if name == "" || len(name) > maxSecretName || (name[0] >= '0' && name[0] <= '9') {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
		default:
			return false
		}
	}
	return true
}

// sealedPiece splits off the first piece of sealed: verbatim text, or a secret.
func sealedPiece(sealed string) (text, secret, rest string) {
	switch {
	case strings.HasPrefix(sealed, "$${"):
		return "${", "", sealed[3:]
	case strings.HasPrefix(sealed, secretOpen):
		name, after, closed := strings.Cut(sealed[len(secretOpen):], "}")
		if closed && isSecretName(name) {
			return "", name, after
		}
	}
	next := strings.IndexByte(sealed[1:], '$') + 1
	if next == 0 {
		next = len(sealed)
	}
	return sealed[:next], "", sealed[next:]
}

// Unseal inserts secrets into a sealed rendering, in one scan from left to right: $${ becomes ${,
// ${secrets.NAME} becomes quote(resolve(NAME)), and anything else is kept. quote encodes the value
// for its place: JSON string escaping without the quotes for a JSON body, percent-encoding for a
// URL, identity for a header. An error of resolve is returned wrapped, with the secret's name.
// Values of secrets are never scanned.
func Unseal(sealed string, resolve func(name string) (string, error), quote func(string) string) (string, error) {
	var b strings.Builder
	for sealed != "" {
		text, secret, rest := sealedPiece(sealed)
		sealed = rest
		if secret == "" {
			b.WriteString(text)
			continue
		}
		value, err := resolve(secret)
		if err != nil {
			return "", fmt.Errorf("resolve secrets.%s: %w", secret, err)
		}
		b.WriteString(quote(value))
	}
	return b.String(), nil
}

// SealedNames lists the secrets a sealed rendering refers to, in the order of
// their first use.
func SealedNames(sealed string) []string {
	var names []string
	for sealed != "" {
		_, secret, rest := sealedPiece(sealed)
		sealed = rest
		if secret != "" && !slices.Contains(names, secret) {
			names = append(names, secret)
		}
	}
	return names
}
