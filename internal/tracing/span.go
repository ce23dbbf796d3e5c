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

// source makes a span later, outside the lanes.
type source interface {
	span() span
	size() int // bytes of records that it refers to
}

// span is an ended span.
type span struct {
	of         *saga.Trace
	id, parent saga.SpanID // parent is zero if there is none
	remote     bool        // the parent belongs to another program
	name       string
	kind       trace.SpanKind
	start, end time.Time
	attrs      []attribute.KeyValue
	events     []note
	failed     bool
	why        string // the reason of a failure, for people
}

// note is an event of a span.
type note struct {
	at    time.Time
	name  string
	attrs []attribute.KeyValue
}

// maxNotes bounds the events of a span. Later ones are left out.
const maxNotes = 128

func add(list *[]note, n note) {
	if len(*list) < maxNotes {
		*list = append(*list, n)
	}
}

// Bounds of texts from services, in bytes of a text and in texts of a list: a collector refuses a
// request that is too large, with all spans in it.
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

// text adds an attribute, unless the text is empty.
func text(attrs []attribute.KeyValue, key, value string) []attribute.KeyValue {
	if value == "" {
		return attrs
	}
	return append(attrs, attribute.String(key, value))
}

// builder makes spans with the SDK, which puts ended ones into batch. It is for one goroutine.
type builder struct {
	tracer trace.Tracer
	batch  []sdk.ReadOnlySpan
}

func newBuilder(r Resource) *builder {
	b := &builder{}
	limits := sdk.NewSpanLimits() // as the OTEL_ variables set them
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

// input gives spans the ids of their context.
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

// Resource describes the program that exports. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take
// precedence.
type Resource struct {
	Version  string // of the program
	Instance string // this process
}

func (r Resource) resource() *sdkresource.Resource {
	own := sdkresource.NewSchemaless(attribute.String("service.name", "recourse"), attribute.String("service.version", r.Version), attribute.String("service.instance.id", r.Instance))
	env, err := sdkresource.New(context.Background(), sdkresource.WithFromEnv(), sdkresource.WithTelemetrySDK())
	if err != nil {
		return own // the variables are invalid
	}
	all, err := sdkresource.Merge(own, env)
	if err != nil {
		return own
	}
	return all
}
