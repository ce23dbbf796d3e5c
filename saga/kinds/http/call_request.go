package http

import (
	"encoding/base64"
	"encoding/json"
	nethttp "net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"recourse/internal/httptext"
	"recourse/saga"
)

// outgoing is a request with its secrets inserted. It must not be shown or stored.
type outgoing struct {
	method string
	url    *url.URL
	header nethttp.Header
	body   []byte
	shown  string // method, host and path, with secrets as references
	redact *httptext.Redactor
	secret []string // names of headers that contain secrets
}

func (c *Caller) prepare(r saga.Request) (*outgoing, error) {
	u := &unsealer{secret: c.cfg.Secret}
	if !httptext.IsToken(r.Method) || r.Method == nethttp.MethodConnect {
		return nil, &refusal{CodeRequestInvalid, "the method is not one that HTTP can send"}
	}
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
		if err := c.cfg.SecretHosts.allow(name, target); err != nil {
			return nil, err
		}
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", c.cfg.UserAgent)
	}
	if _, own := header["Traceparent"]; !own && r.Traceparent != "" {
		header.Set("Traceparent", r.Traceparent)
	}
	// A part of a gzip stream cannot be decompressed.
	if header.Get("Accept-Encoding") == "" && header.Get("Range") == "" {
		header.Set("Accept-Encoding", "gzip")
	}
	return &outgoing{method: r.Method, url: target, header: header, body: body,
		secret: u.headersOf, shown: shown(r.Method, r.URL), redact: httptext.NewRedactor(append(c.cfg.Known(), u.values...))}, nil
}

func (u *unsealer) url(sealed string) (*url.URL, error) {
	if _, rest, ok := strings.Cut(sealed, "://"); ok && strings.Contains(authority(rest), "${secrets.") {
		return nil, &refusal{CodeURLInvalid, "a secret cannot be part of the host; use headers, auth or query"}
	}
	text, err := u.text(sealed, httptext.PercentEncode)
	if err != nil {
		return nil, err
	}
	return parseURL(text)
}

// parseURL parses an absolute http or https URL. Its errors do not contain the URL.
func parseURL(text string) (*url.URL, error) {
	target, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, " \t\r\n\x00") {
		return nil, &refusal{CodeURLInvalid, "the URL cannot be read"}
	}
	return target, checkURL(target)
}

func checkURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return &refusal{CodeURLInvalid, "the URL must begin with http:// or https://"}
	case u.Opaque != "" || host == "":
		return &refusal{CodeURLInvalid, "the URL has no host"}
	case u.User != nil:
		return &refusal{CodeURLInvalid, "the URL must not hold a user or password; use auth with a secret"}
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return &refusal{CodeURLInvalid, "the URL's port must be from 1 to 65535"}
		}
	}
	if _, err := netip.ParseAddr(host); err != nil && endsInNumber(host) {
		return &refusal{CodeURLInvalid, "write an IPv4 address as four decimal numbers"}
	}
	return nil
}

func (u *unsealer) headers(sealed map[string]string) (nethttp.Header, error) {
	header := make(nethttp.Header, len(sealed)+2) // User-Agent and Accept-Encoding
	values := make([]string, 0, len(sealed))
	for name, sealed := range sealed { // any order
		key := nethttp.CanonicalHeaderKey(name)
		if !httptext.Settable(name) {
			return nil, &refusal{CodeRequestInvalid, "the header " + strconv.Quote(name) + " cannot be set"}
		}
		if _, twice := header[key]; twice {
			return nil, &refusal{CodeRequestInvalid, "the header " + key + " is set twice"}
		}
		if httptext.HasControl(sealed) {
			return nil, &refusal{CodeRequestInvalid, "the header " + key + " has a line break or control character in its value"}
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
			return nil, &refusal{codeSecretMissing, "the secret in the header " + key + " has a line break or control character in it: provide it as one line"}
		}
		values = append(values, value)
		header[key] = values[len(values)-1 : len(values) : len(values)]
	}
	return header, nil
}

// Basic credentials are Basic base64(user:password) in a request, so that a journal shows which
// secrets they contain. The user and the password are encoded after the secrets are inserted.
const (
	basicOpen  = "Basic base64("
	basicClose = ")"
)

// header unseals a header's value.
func (u *unsealer) header(sealed string) (string, error) {
	inner, basic := strings.CutPrefix(sealed, basicOpen)
	inner, closed := strings.CutSuffix(inner, basicClose)
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
		return "", &refusal{codeSecretMissing, "the secret that is the user of basic credentials has a colon, which RFC 7617 does not allow: provide another"}
	}
	if password, err = u.text(password, nil); err != nil {
		return "", err
	}
	if httptext.HasControl(user + password) {
		return "", &refusal{codeSecretMissing, "a secret in the basic credentials has a line break or control character in it: provide it as one line"}
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if len(u.names) > had {
		u.values = append(u.values, encoded) // an answer may contain this form
	}
	return "Basic " + encoded, nil
}

// body returns the bytes to send. A JSON body is sent as it is in the request. For another content
// type, the request's body is a JSON string of the text to send.
func (u *unsealer) body(sealed json.RawMessage, header nethttp.Header) ([]byte, error) {
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
		return nil, &refusal{CodeRequestInvalid, "a body of the type " + media + " must be text"}
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
