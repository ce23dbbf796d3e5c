package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"recourse/saga"
)

// source is what a span is made of, once there is time for that: not on a lane.
type source interface {
	span() span
	size() int // bytes of records that it holds on to
}

// span is a span that is over.
type span struct {
	of         *saga.Trace
	id, parent saga.SpanID // no parent: zero
	remote     bool        // the parent is of another program
	name       string
	kind       trace.SpanKind
	start, end time.Time
	attrs      []attribute.KeyValue
	events     []note
	failed     bool
	why        string // with failed, for a person
}

// note is an event of a span.
type note struct {
	at    time.Time
	name  string
	attrs []attribute.KeyValue
}

// maxNotes bounds the events of a span; those that come later are left out.
const maxNotes = 128

func add(list *[]note, n note) {
	if len(*list) < maxNotes {
		*list = append(*list, n)
	}
}

// Bounds of what services have written, in bytes of a text and in texts of a list: a collector
// refuses a request that is too large, with all spans in it.
const (
	maxText = 4 << 10
	maxList = 16
)

// short cuts a text to maxText.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// text is an attribute, none if the text is empty.
func text(attrs []attribute.KeyValue, key, value string) []attribute.KeyValue {
	if value == "" {
		return attrs
	}
	return append(attrs, attribute.String(key, value))
}

// builder makes spans with the SDK, which collects them in batch as they end. One goroutine uses
// it.
type builder struct {
	tracer trace.Tracer
	batch  []sdk.ReadOnlySpan
}

func newBuilder(r Resource) *builder {
	b := &builder{}
	limits := sdk.NewSpanLimits() // with what OTEL_ variables say
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxText
	}
	p := sdk.NewTracerProvider(sdk.WithRawSpanLimits(limits), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(input{}), sdk.WithSpanProcessor(b), sdk.WithResource(r.resource()))
	b.tracer = p.Tracer("recourse")
	return b
}

// add makes a span.
func (b *builder) add(s span) {
	ids := trace.SpanContextConfig{TraceID: trace.TraceID(s.of.ID), SpanID: trace.SpanID(s.id), TraceFlags: trace.FlagsSampled}
	ctx := context.WithValue(context.Background(), input{}, ids)
	if s.parent != (saga.SpanID{}) {
		ids.SpanID, ids.Remote = trace.SpanID(s.parent), s.remote
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(ids))
	}
	_, out := b.tracer.Start(ctx, s.name, trace.WithTimestamp(s.start), trace.WithSpanKind(s.kind), trace.WithAttributes(s.attrs...))
	for _, n := range s.events {
		out.AddEvent(n.name, trace.WithTimestamp(n.at), trace.WithAttributes(n.attrs...))
	}
	if s.failed {
		out.SetStatus(codes.Error, short(s.why))
	}
	out.End(trace.WithTimestamp(s.end))
}

// OnStart implements sdk.SpanProcessor.
func (b *builder) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (b *builder) OnEnd(s sdk.ReadOnlySpan) { b.batch = append(b.batch, s) }

// Shutdown implements sdk.SpanProcessor.
func (b *builder) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (b *builder) ForceFlush(context.Context) error { return nil }

// input gives spans the ids that are in their context.
type input struct{}

// NewIDs implements sdk.IDGenerator.
func (input) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids := ctx.Value(input{}).(trace.SpanContextConfig)
	return ids.TraceID, ids.SpanID
}

// NewSpanID implements sdk.IDGenerator.
func (g input) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := g.NewIDs(ctx)
	return id
}

// Resource is whose spans they are. What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins.
type Resource struct {
	Version  string // of the program
	Instance string // this process
}

func (r Resource) resource() *sdkresource.Resource {
	own := sdkresource.NewSchemaless(attribute.String("service.name", "recourse"), attribute.String("service.version", r.Version), attribute.String("service.instance.id", r.Instance))
	env, err := sdkresource.New(context.Background(), sdkresource.WithFromEnv(), sdkresource.WithTelemetrySDK())
	if err != nil {
		return own // what the variables say cannot be read
	}
	all, err := sdkresource.Merge(own, env)
	if err != nil {
		return own
	}
	return all
}
