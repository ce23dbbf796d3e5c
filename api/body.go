package api

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds/ask"
)

// presized is the largest Content-Length for which a buffer is allocated before the body arrives. A
// larger body must arrive to get memory.
const presized = 16 << 10

// body reads the request's body, once.
func (s *server) body(c echo.Context) ([]byte, error) {
	k := c.(*call)
	if k.read {
		return k.body, nil
	}
	r := c.Request()
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, fail("unsupported_media_type", "send the body as it is, without Content-Encoding: %s", enc)
	}
	limit := s.cfg.Limits.Body
	if k.route.document {
		limit = s.cfg.Limits.Document
	}
	if k.route.batch {
		limit = s.cfg.Limits.Batch
	}
	if k.route.prompt {
		limit = ask.MaxContent
	}
	var b []byte
	var err error
	if n := r.ContentLength; 0 < n && n <= min(limit, presized) {
		b = make([]byte, n)
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, limit))
	}
	if err != nil {
		if p := asProblem(err); p.Status == http.StatusRequestEntityTooLarge {
			return nil, p
		}
		return nil, fail("invalid_request", "the body could not be read to its end: send it again")
	}
	k.body, k.read = b, true
	return b, nil
}

// mediaType returns the media type of the request's body, "" if there is none. The type of forms
// counts as none: curl sends it with every body by default, and no route accepts forms. Web pages
// can send forms to any address, but guard refuses their requests.
func mediaType(c echo.Context) string {
	header := c.Request().Header.Get(echo.HeaderContentType)
	if header == echo.MIMEApplicationJSON {
		return header
	}
	t, _, err := mime.ParseMediaType(header)
	switch {
	case err != nil:
		return header
	case t == echo.MIMEApplicationForm:
		return ""
	}
	return t
}

func isJSON(t string) bool { return t == "application/json" || strings.HasSuffix(t, "+json") }

// object is a request's body: a JSON object whose values are not decoded yet.
type object struct {
	fields map[string]json.RawMessage
	wrong  []saga.Finding
}

// readObject reads a body that is a JSON object without other fields than the named ones. An empty
// body is an object without fields.
func (s *server) readObject(c echo.Context, names ...string) (*object, error) {
	b, err := s.body(c)
	if err != nil {
		return nil, err
	}
	if t := mediaType(c); len(b) > 0 && t != "" && !isJSON(t) {
		return nil, fail("unsupported_media_type", "send JSON, with Content-Type: application/json, not %.60s", t)
	}
	if len(b) == 0 {
		return &object{}, nil
	}
	fields, p := strictFields(b)
	if p != nil {
		return nil, p
	}
	o := &object{fields: fields}
	return o, o.check("", names)
}

// parse reads an object inside a body; at is its JSON pointer.
func (o *object) parse(b json.RawMessage, at string, names []string) error {
	if err := json.Unmarshal(b, &o.fields); err != nil {
		o.fields = nil
	}
	return o.check(at, names)
}

// check returns a problem if the value is not an object, or has fields that are not in names.
func (o *object) check(at string, names []string) error {
	if o.fields == nil {
		return invalid(saga.Finding{Pointer: at, Code: "wrong_type", Detail: "this must be a JSON object"})
	}
	var unknown []string
	for name := range o.fields {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		hint := dsl.Suggest(name, names)
		if hint == "" {
			hint = "; there are " + strings.Join(names, ", ")
		}
		o.wrong = append(o.wrong, saga.Finding{Pointer: at + "/" + name, Code: "unknown_field", Detail: fmt.Sprintf("there is no field %.60q here%s", name, hint)})
	}
	if len(o.wrong) > 0 {
		return invalid(o.wrong...)
	}
	return nil
}

// into decodes a field into v, if it is present and not null. what describes the expected value in
// the error.
func (o *object) into(name string, v any, what string) bool {
	raw, ok := o.fields[name]
	if !ok || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		o.wrong = append(o.wrong, saga.Finding{Pointer: "/" + name, Code: "wrong_type", Detail: name + " must be " + what})
		return false
	}
	return true
}

// str returns a text field, "" if it is absent.
func (o *object) str(name string) string {
	var v string
	o.into(name, &v, "text")
	return v
}

func (o *object) flag(name string) bool {
	var v bool
	o.into(name, &v, "true or false")
	return v
}

// raw returns a field's undecoded value, nil if it is absent.
func (o *object) raw(name string) json.RawMessage { return o.fields[name] }

func (o *object) bad(pointer, code, detail string, args ...any) {
	o.wrong = append(o.wrong, saga.Finding{Pointer: pointer, Code: code, Detail: fmt.Sprintf(detail, args...)})
}

// adopt takes over the wrong fields of an object that is the value of a field, at.
func (o *object) adopt(in *object, at string) {
	for _, f := range in.wrong {
		f.Pointer = at + f.Pointer
		o.wrong = append(o.wrong, f)
	}
}

// err returns a problem if any field was wrong.
func (o *object) err() error {
	if len(o.wrong) == 0 {
		return nil
	}
	return invalid(o.wrong...)
}
