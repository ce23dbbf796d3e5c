package http

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	nethttp "net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"recourse/saga"
)

// outgoing is a request with its secrets inserted. It must not be shown or stored.
type outgoing struct {
	method string
	url    *url.URL
	header nethttp.Header
	body   []byte
	shown  string // method, host and path, with secrets as references
	redact *Redactor
	secret []string // names of headers that contain secrets
}

// ownHeader reports whether the HTTP client itself sets a header of this canonical name. A
// definition that sets one could smuggle a second request past a proxy, or hang the call.
func ownHeader(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// Settable reports whether a request may have a header of this name.
func Settable(name string) bool {
	return isToken(name) && !ownHeader(nethttp.CanonicalHeaderKey(name))
}

func (c *Caller) prepare(r saga.Request) (*outgoing, error) {
	u := &unsealer{secret: c.cfg.Secret}
	if !isToken(r.Method) || r.Method == nethttp.MethodConnect {
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
		secret: u.headersOf, shown: shown(r.Method, r.URL), redact: NewRedactor(append(c.cfg.Known(), u.values...))}, nil
}

func (u *unsealer) url(sealed string) (*url.URL, error) {
	if _, rest, ok := strings.Cut(sealed, "://"); ok && strings.Contains(authority(rest), "${secrets.") {
		return nil, &refusal{CodeURLInvalid, "a secret cannot be part of the host; use headers, auth or query"}
	}
	text, err := u.text(sealed, percentEncode)
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
		if !Settable(name) {
			return nil, &refusal{CodeRequestInvalid, "the header " + strconv.Quote(name) + " cannot be set"}
		}
		if _, twice := header[key]; twice {
			return nil, &refusal{CodeRequestInvalid, "the header " + key + " is set twice"}
		}
		if hasControl(sealed) {
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
		if hasControl(value) {
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
	if hasControl(user + password) {
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
	media := mediaType(header.Get("Content-Type"))
	if isJSON(media) {
		text, err := u.text(string(sealed), jsonEscape)
		return []byte(text), err
	}
	var text string
	if err := json.Unmarshal(sealed, &text); err != nil {
		return nil, &refusal{CodeRequestInvalid, "a body of the type " + media + " must be text"}
	}
	quote := func(s string) string { return s }
	if media == "application/x-www-form-urlencoded" {
		quote = percentEncode // a secret that contains & or = stays one value
	}
	text, err := u.text(text, quote)
	return []byte(text), err
}

// shown returns the method, host and path of a sealed request: no query, no user, secrets as
// references. It is short and safe to log.
func shown(method, sealed string) string {
	_, rest, ok := strings.Cut(sealed, "://")
	if !ok {
		return clip(printable(method), 20) + " (no URL)"
	}
	host := authority(rest)
	path, _, _ := strings.Cut(rest[len(host):], "?")
	path, _, _ = strings.Cut(path, "#")
	host = host[strings.LastIndexByte(host, '@')+1:]
	return clip(printable(method+" "+host+path), 200)
}

func authority(rest string) string {
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		return rest[:i]
	}
	return rest
}

func mediaType(contentType string) string {
	if contentType == jsonType {
		return jsonType
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(contentType, ";")
	}
	return strings.ToLower(strings.TrimSpace(media))
}

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
