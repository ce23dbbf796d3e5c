package httptext

import (
	"cmp"
	"mime"
	"net/textproto"
	"slices"
	"strings"
)

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
	return IsToken(name) && !ownHeader(textproto.CanonicalMIMEHeaderKey(name))
}

// JSON is the media type of JSON.
const JSON = "application/json"

// MediaType returns the type of a Content-Type in lower case, without its parameters.
func MediaType(contentType string) string {
	if contentType == JSON {
		return JSON
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(contentType, ";")
	}
	return strings.ToLower(strings.TrimSpace(media))
}

// IsJSON reports whether a media type is JSON or based on it.
func IsJSON(media string) bool {
	return media == JSON || media == "text/json" || strings.HasSuffix(media, "+json")
}

// maxHeaders limits the names and values of the headers that an answer keeps.
const maxHeaders = 8 << 10

// notKept are response headers that set or prove credentials.
var notKept = []string{"set-cookie", "set-cookie2", "authorization", "authentication-info", "proxy-authentication-info"}

// KeptHeaders returns the headers that an answer keeps: lower case, values joined, without
// credentials. Over the limit the longest are left out, so that one huge header does not cost the
// useful ones.
func KeptHeaders(h map[string][]string, redact *Redactor) map[string]string {
	type header struct{ name, value string }
	kept, total := make(map[string]string, len(h)), 0
	for name, values := range h { // any order
		name = strings.ToLower(name)
		if !slices.Contains(notKept, name) {
			kept[name] = redact.Text(strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD"))
			total += len(name) + len(kept[name])
		}
	}
	if total <= maxHeaders {
		return kept
	}
	var all []header
	for name, value := range kept { // any order
		all = append(all, header{name, value})
	}
	slices.SortFunc(all, func(a, b header) int {
		return cmp.Or(cmp.Compare(len(a.name)+len(a.value), len(b.name)+len(b.value)), strings.Compare(a.name, b.name))
	})
	clear(kept)
	total = 0
	for _, h := range all {
		if total += len(h.name) + len(h.value); total > maxHeaders {
			break
		}
		kept[h.name] = h.value
	}
	return kept
}
