package client

import (
	"strings"
	"unicode/utf8"

	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/expr"
	kind "recourse/saga/kinds/http"
)

// unsealer inserts secrets into a request and records which.
type unsealer struct {
	secret func(name string) (string, error)
	names  []string
	values []string
	failed *refusal

	headersOf []string // the headers that contain them
}

// text unseals one piece. quote encodes a value for its place; nil leaves it as it is.
func (u *unsealer) text(sealed string, quote func(string) string) (string, error) {
	if !strings.Contains(sealed, "${") {
		return sealed, nil
	}
	if quote == nil {
		quote = func(s string) string { return s }
	}
	out, err := expr.Unseal(sealed, u.resolve, quote)
	switch {
	case u.failed != nil:
		return "", u.failed
	case err != nil:
		return "", &refusal{kind.CodeRequestInvalid, "the request's secret references cannot be read"}
	}
	return out, nil
}

func (u *unsealer) resolve(name string) (string, error) {
	value, err := u.secret(name)
	switch {
	case err != nil:
		u.failed = &refusal{saga.CodeSecretMissing, "the secret " + name + " cannot be had: " + httptext.Clip(httptext.Printable(err.Error()), 300)}
	case value == "":
		u.failed = &refusal{saga.CodeSecretMissing, "the secret " + name + " is empty: provide RECOURSE_SECRET_" + name + " or a file " + name + " in --secret-dir"}
	case !utf8.ValidString(value):
		u.failed = &refusal{saga.CodeSecretMissing, "the secret " + name + " is not UTF-8 text: provide it as text, in base64 for example"}
	default:
		u.names, u.values = append(u.names, name), append(u.values, value)
		return value, nil
	}
	return "", u.failed
}
