package client

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/saga"
	kind "recourse/saga/kinds/http"
)

// outgoing is a request with its secrets inserted. It must not be shown or stored.
type outgoing struct {
	egress.Request
	shown  string // method, host and path, with secrets as references
	redact *httptext.Redactor
	secret []string // names of headers that contain secrets
}

func (c *Caller) prepare(r saga.Request) (*outgoing, error) {
	u := &unsealer{secret: c.cfg.Secret}
	target, err := u.url(r.URL)
	if err != nil {
		return nil, err
	}
	header, err := u.headers(r.Headers)
	if err != nil {
		return nil, err
	}
	body, err := u.body(r.Body, header)
	if err != nil {
		return nil, err
	}
	for _, name := range u.names {
		if err := c.cfg.SecretHosts.Allow(name, target); err != nil {
			return nil, &refusal{saga.CodeSecretMissing, err.Error()}
		}
	}
	if _, own := header["Traceparent"]; !own && r.Traceparent != "" {
		header.Set("Traceparent", r.Traceparent)
	}
	// A part of a gzip stream cannot be decompressed.
	if header.Get("Accept-Encoding") == "" && header.Get("Range") == "" {
		header.Set("Accept-Encoding", "gzip")
	}
	return &outgoing{Request: egress.Request{Method: r.Method, URL: target, Header: header, Body: body},
		secret: u.headersOf, shown: shown(r.Method, r.URL), redact: httptext.NewRedactor(append(c.cfg.Known(), u.values...))}, nil
}

func (u *unsealer) url(sealed string) (*url.URL, error) {
	if _, rest, ok := strings.Cut(sealed, "://"); ok && strings.Contains(authority(rest), "${secrets.") {
		return nil, &refusal{kind.CodeURLInvalid, "a secret cannot be part of the host; use headers, auth or query"}
	}
	text, err := u.text(sealed, httptext.PercentEncode)
	if err != nil {
		return nil, err
	}
	target, f := egress.ParseURL(text)
	if f != nil {
		return nil, &refusal{f.Code, f.Why}
	}
	return target, nil
}

func (u *unsealer) headers(sealed map[string]string) (http.Header, error) {
	header := make(http.Header, len(sealed)+2) // User-Agent and Accept-Encoding
	values := make([]string, 0, len(sealed))
	for name, sealed := range sealed { // any order
		key := http.CanonicalHeaderKey(name)
		if !httptext.Settable(name) {
			return nil, &refusal{kind.CodeRequestInvalid, "the header " + strconv.Quote(name) + " cannot be set"}
		}
		if _, twice := header[key]; twice {
			return nil, &refusal{kind.CodeRequestInvalid, "the header " + key + " is set twice"}
		}
		if httptext.HasControl(sealed) {
			return nil, &refusal{kind.CodeRequestInvalid, "the header " + key + " has a line break or control character in its value"}
		}
		had := len(u.names)
		value, err := u.header(sealed)
		if err != nil {
			return nil, err
		}
		if len(u.names) > had {
			u.headersOf = append(u.headersOf, key)
		}
		if httptext.HasControl(value) {
			return nil, &refusal{saga.CodeSecretMissing, "the secret in the header " + key + " has a line break or control character in it: provide it as one line"}
		}
		values = append(values, value)
		header[key] = values[len(values)-1 : len(values) : len(values)]
	}
	return header, nil
}

// header unseals a header's value.
func (u *unsealer) header(sealed string) (string, error) {
	inner, basic := strings.CutPrefix(sealed, kind.BasicOpen)
	inner, closed := strings.CutSuffix(inner, kind.BasicClose)
	user, password, both := strings.Cut(inner, ":")
	if !basic || !closed || !both {
		return u.text(sealed, nil)
	}
	had := len(u.names)
	user, err := u.text(user, nil)
	if err != nil {
		return "", err
	}
	if strings.Contains(user, ":") {
		return "", &refusal{saga.CodeSecretMissing, "the secret that is the user of basic credentials has a colon, which RFC 7617 does not allow: provide another"}
	}
	if password, err = u.text(password, nil); err != nil {
		return "", err
	}
	if httptext.HasControl(user + password) {
		return "", &refusal{saga.CodeSecretMissing, "a secret in the basic credentials has a line break or control character in it: provide it as one line"}
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if len(u.names) > had {
		u.values = append(u.values, encoded) // an answer may contain this form
	}
	return "Basic " + encoded, nil
}

// body returns the bytes to send. A JSON body is sent as it is in the request. For another content
// type, the request's body is a JSON string of the text to send.
func (u *unsealer) body(sealed json.RawMessage, header http.Header) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	media := httptext.MediaType(header.Get("Content-Type"))
	if httptext.IsJSON(media) {
		text, err := u.text(string(sealed), httptext.EscapeJSON)
		return []byte(text), err
	}
	var text string
	if err := json.Unmarshal(sealed, &text); err != nil {
		return nil, &refusal{kind.CodeRequestInvalid, "a body of the type " + media + " must be text"}
	}
	quote := func(s string) string { return s }
	if media == "application/x-www-form-urlencoded" {
		quote = httptext.PercentEncode // a secret that contains & or = stays one value
	}
	text, err := u.text(text, quote)
	return []byte(text), err
}

// shown returns the method, host and path of a sealed request: no query, no user, secrets as
// references. It is short and safe to log.
func shown(method, sealed string) string {
	_, rest, ok := strings.Cut(sealed, "://")
	if !ok {
		return httptext.Clip(httptext.Printable(method), 20) + " (no URL)"
	}
	host := authority(rest)
	path, _, _ := strings.Cut(rest[len(host):], "?")
	path, _, _ = strings.Cut(path, "#")
	host = host[strings.LastIndexByte(host, '@')+1:]
	return httptext.Clip(httptext.Printable(method+" "+host+path), 200)
}

func authority(rest string) string {
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		return rest[:i]
	}
	return rest
}
