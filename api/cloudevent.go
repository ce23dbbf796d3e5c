package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// Media types of CloudEvents over HTTP. The third form, binary, has its attributes in headers
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md).
const (
	typeEvent  = "application/cloudevents+json"
	typeEvents = "application/cloudevents-batch+json"
)

const (
	maxEvents    = 100       // events in one batch
	maxEventData = 256 << 10 // bytes of one event's data
	maxEventText = 512       // bytes of an attribute that is stored
	maxEventID   = 256       // bytes
)

// readEvents reads the events of a request in any of the three forms.
func (s *server) readEvents(c echo.Context) ([]saga.Event, error) {
	body, err := s.body(c)
	if err != nil {
		return nil, err
	}
	switch t := mediaType(c); {
	case t == typeEvents:
		return readBatch(body)
	case t == typeEvent:
		fields, p := strictFields(body)
		if p != nil {
			return nil, p
		}
		e, wrong := readEvent(fields, "")
		return []saga.Event{e}, badEvents(wrong)
	case c.Request().Header.Get("Ce-Specversion") == "":
		return nil, fail("invalid_request", "this is no CloudEvent: send one as JSON with Content-Type: %s, several with %s, or its attributes as headers (ce-specversion, ce-id, ce-source, ce-type) and its data as the body", typeEvent, typeEvents)
	default:
		e, wrong := readBinary(c.Request().Header, t, body)
		return []saga.Event{e}, badEvents(wrong)
	}
}

// badEvents returns a problem if any event was wrong. Then none of the events is processed.
func badEvents(wrong []saga.Finding) error {
	if len(wrong) == 0 {
		return nil
	}
	return invalid(wrong...)
}

func readBatch(body []byte) ([]saga.Event, error) {
	if p := strictJSON(body); p != nil {
		return nil, p
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil || list == nil {
		return nil, invalid(saga.Finding{Code: "wrong_type", Detail: "a batch is a JSON array of CloudEvents"})
	}
	if len(list) > maxEvents {
		return nil, invalid(saga.Finding{Code: "too_many", Detail: fmt.Sprintf("a batch has at most %d events: send several", maxEvents)})
	}
	events, wrong := make([]saga.Event, len(list)), []saga.Finding(nil)
	for i, raw := range list {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			fields = nil
		}
		e, bad := readEvent(fields, "/"+strconv.Itoa(i))
		events[i], wrong = e, append(wrong, bad...)
	}
	return events, badEvents(wrong)
}

// attributes are the attributes of one event, as text; at is the event's JSON pointer.
type attributes struct {
	texts map[string]string
	at    string
	wrong []saga.Finding
}

// bad records the first error of an attribute.
func (a *attributes) bad(name, code, detail string, args ...any) {
	at := a.at + "/" + name
	if !slices.ContainsFunc(a.wrong, func(f saga.Finding) bool { return f.Pointer == at }) {
		a.wrong = append(a.wrong, saga.Finding{Pointer: at, Code: code, Detail: fmt.Sprintf(detail, args...)})
	}
}

var attributeName = regexp.MustCompile(`^[a-z0-9]+$`)

// readEvent reads an event in the JSON format; fields is nil if the value is not an object.
func readEvent(fields map[string]json.RawMessage, at string) (saga.Event, []saga.Finding) {
	if fields == nil {
		return saga.Event{}, []saga.Finding{{Pointer: at, Code: "wrong_type", Detail: "a CloudEvent is a JSON object"}}
	}
	a := &attributes{texts: map[string]string{}, at: at}
	for _, name := range sortedKeys(fields) {
		raw := fields[name]
		switch {
		case name == "data" || name == "data_base64" || string(raw) == "null":
		case !attributeName.MatchString(name):
			a.bad(expr.PointerToken(name), "unknown_field", "an attribute's name has small letters and digits only, not %.60q; put the content of the event into data", name)
		case raw[0] == '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				a.bad(name, "wrong_type", "%s must be text", name)
				continue
			}
			a.texts[name] = text
		case raw[0] == '{' || raw[0] == '[' || known(name):
			a.bad(name, "wrong_type", "%s must be text", name)
		}
	}
	e := a.event()
	data, encoded := fields["data"], fields["data_base64"]
	switch {
	case data != nil && encoded != nil:
		a.bad("data_base64", "two_values", "an event has either data or data_base64")
	case encoded != nil && string(encoded) != "null":
		var text string
		err := json.Unmarshal(encoded, &text)
		bytes, bad := base64.StdEncoding.DecodeString(text)
		if err != nil || bad != nil {
			a.bad("data_base64", "wrong_type", "data_base64 is text in base64")
			break
		}
		e.Data = a.data("data_base64", a.texts["datacontenttype"], bytes)
	default:
		e.Data = data
	}
	if len(e.Data) > maxEventData {
		a.bad("data", "too_large", "an event's data has at most %d bytes: send a reference, and let a step fetch the content", maxEventData)
	}
	return e, a.wrong
}

// known reports whether the specification defines the attribute. All such attributes are text.
func known(name string) bool {
	switch name {
	case "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema":
		return true
	}
	return false
}

// readBinary reads an event whose attributes are headers.
func readBinary(h http.Header, t string, body []byte) (saga.Event, []saga.Finding) {
	a := &attributes{texts: map[string]string{}}
	for _, name := range sortedKeys(h) {
		attribute, ours := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ours {
			continue
		}
		text, err := url.PathUnescape(h[name][0])
		switch {
		case len(h[name]) > 1:
			a.bad(attribute, "two_values", "the header ce-%s is present more than once", attribute)
		case err != nil || !utf8.ValidString(text):
			a.bad(attribute, "wrong_type", "the header ce-%s is not percent-encoded UTF-8", attribute)
		default:
			a.texts[attribute] = text
		}
	}
	e := a.event()
	e.Data = a.data("data", t, body)
	if len(body) > maxEventData {
		a.bad("data", "too_large", "an event's data has at most %d bytes: send a reference, and let a step fetch the content", maxEventData)
	}
	return e, a.wrong
}

// event builds an event from the attributes, and records their errors.
func (a *attributes) event() saga.Event {
	if v, ok := a.texts["specversion"]; !ok {
		a.bad("specversion", "missing_field", `specversion is missing: it is "1.0"`)
	} else if v != "1.0" {
		a.bad("specversion", "unknown_value", "specversion must be 1.0, not %.20q", v)
	}
	e := saga.Event{
		ID:      a.text("id", maxEventID, true, "id is missing: it identifies the event within its source"),
		Source:  a.text("source", maxEventText, true, "source is missing: it says where the event comes from, as a URI such as /shop or https://shop.example"),
		Type:    a.text("type", maxEventText, true, "type is missing: it says what happened, such as com.shop.order.paid"),
		Subject: a.text("subject", maxEventText, false, ""),
		Time:    a.text("time", maxEventText, false, ""),

		Traceparent: a.texts["traceparent"],
	}
	if _, err := url.Parse(e.Source); err != nil {
		a.bad("source", "wrong_type", "source is a URI or the last part of one, such as /shop")
	}
	if _, err := time.Parse(time.RFC3339, e.Time); e.Time != "" && err != nil {
		a.bad("time", "wrong_type", "time is an RFC 3339 timestamp, such as 2026-01-31T09:00:00Z")
	}
	return e
}

func (a *attributes) text(name string, most int, required bool, missing string) string {
	text, ok := a.texts[name]
	switch {
	case !ok && required:
		a.bad(name, "missing_field", "%s", missing)
	case ok && (text == "" || len(text) > most || strings.ContainsFunc(text, unicode.IsControl)):
		a.bad(name, "wrong_type", "%s is text of 1 to %d bytes, without line breaks and other control characters", name, most)
	}
	return text
}

// data returns an event's data as JSON: JSON data unchanged, text as a string, other bytes as
// {"base64": …}.
func (a *attributes) data(name, contentType string, body []byte) json.RawMessage {
	t, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	t = strings.TrimSpace(t)
	var v any
	switch {
	case len(body) == 0:
		return nil
	case t == "" || isJSON(t):
		if p := strictJSON(body); p != nil {
			a.bad(name, "invalid_json", "the data is not JSON: %s. If it is not meant to be, say so with datacontenttype (as a header: Content-Type)", p.Detail)
			return nil
		}
		return body
	case strings.HasPrefix(t, "text/") && utf8.Valid(body):
		v = string(body)
	default:
		v = map[string]string{"base64": base64.StdEncoding.EncodeToString(body)}
	}
	raw, err := journal.Encode(v)
	if err != nil {
		a.bad(name, "wrong_type", "the data cannot be written as JSON")
	}
	return raw
}
