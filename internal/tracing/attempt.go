package tracing

import (
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// attempt is an ended attempt of a step, of its compensation, or of its status check.
type attempt struct {
	st              *step
	intent, outcome *journal.Record
	data            history.Outcome
	query           bool
}

func (a *attempt) size() int { return len(a.intent.Data) + len(a.outcome.Data) }

func (a *attempt) span() span {
	s, i, o := a.st.s, a.intent, a.outcome
	out := span{of: &s.trace, id: s.trace.Attempt(i.Path, a.st.at.way, i.Generation, i.Attempt), parent: s.trace.Step(a.st.at.path, a.st.at.way), start: i.At, end: o.At, kind: trace.SpanKindClient}
	out.attrs = []attribute.KeyValue{
		attribute.String("recourse.saga.id", s.trace.Saga.String()),
		attribute.String("recourse.step", i.Path),
		attribute.String("recourse.way", string(a.st.at.way)),
		attribute.Int("recourse.attempt", i.Attempt),
		attribute.Int("recourse.generation", i.Generation),
		attribute.String("recourse.class", string(o.Class)),
	}
	out.attrs = text(out.attrs, "recourse.key", i.Key)
	out.attrs = text(out.attrs, "recourse.cost", a.data.Cost)
	out.attrs = text(out.attrs, "recourse.node", i.Node)
	if a.data.Found != nil {
		out.attrs = append(out.attrs, attribute.Bool("recourse.found", *a.data.Found))
	}
	out.failed = o.Class != journal.Succeeded && a.data.Next != saga.NextConclusive
	if f := a.data.Error; f != nil && out.failed {
		out.attrs = append(out.attrs, attribute.String("error.type", f.Code))
		out.why = f.Title
	}
	var request saga.Request
	if d, ok := history.DataOf[saga.IntentData](i); ok && d.Request != nil {
		request = *d.Request
	}
	a.describe(&out, request)
	return out
}

// describe adds the attributes of the attempt, by its kind.
func (a *attempt) describe(out *span, r saga.Request) {
	kind := "http"
	if def := a.st.s.runs(a.st.at, a.query); def != nil {
		kind = def.Kind
	}
	switch kind {
	case "http":
		out.name = r.Method
		out.attrs = append(out.attrs, attribute.String("http.request.method", r.Method))
		out.attrs = append(out.attrs, address(r.URL)...)
		if a.intent.Attempt > 1 {
			out.attrs = append(out.attrs, attribute.Int("http.request.resend_count", a.intent.Attempt-1))
		}
		if a.data.StatusCode > 0 {
			out.attrs = append(out.attrs, attribute.Int("http.response.status_code", a.data.StatusCode))
		}
	case "llm":
		a.chat(out, r)
	case "run":
		out.name, out.kind = r.String(), trace.SpanKindInternal
	default:
		out.name = r.String()
	}
}

// address returns the host and path of a request. References to secrets stay as they are in the
// journal. The query is left out.
func address(url string) []attribute.KeyValue {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	authority, _, _ := strings.Cut(rest, "/")
	path := rest[len(authority):]
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	attrs := []attribute.KeyValue{attribute.String("url.full", scheme+"://"+authority+path)}
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host, port = strings.Trim(authority, "[]"), map[string]string{"http": "80", "https": "443"}[scheme]
	}
	attrs = append(attrs, attribute.String("server.address", host))
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, attribute.Int("server.port", n))
	}
	return attrs
}
