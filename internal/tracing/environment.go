package tracing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"recourse/saga"
)

// Wanted reports whether spans are exported: an endpoint is set, or OpenTelemetry's variables name
// one and do not disable the export.
func Wanted(endpoint string, env map[string]string) bool {
	if strings.EqualFold(env["OTEL_SDK_DISABLED"], "true") || env["OTEL_TRACES_EXPORTER"] == "none" {
		return false
	}
	return endpoint != "" || env["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" || env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != ""
}

// Exporter returns an exporter to a collector that speaks OTLP over HTTP with Protobuf. endpoint is
// its base URL, such as http://127.0.0.1:4318; "" means OTEL_EXPORTER_OTLP_ENDPOINT. env also has
// the other OTEL_EXPORTER_OTLP_ variables: headers, certificates, timeout and compression. An error
// says what is wrong with one of them.
func Exporter(ctx context.Context, endpoint string, env map[string]string) (sdk.SpanExporter, error) {
	c, err := newCollector(endpoint, env)
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, c)
}

// Sampler reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. The default is
// parentbased_always_on: all traces but those that their caller does not record. An error says what
// is wrong with the variables.
func Sampler(env map[string]string) (func(*saga.Trace) bool, error) {
	name, arg := env["OTEL_TRACES_SAMPLER"], env["OTEL_TRACES_SAMPLER_ARG"]
	base, byParent := strings.CutPrefix(name, "parentbased_")
	if name == "" {
		base, byParent = "always_on", true
	}
	var s sdk.Sampler
	switch base {
	case "always_on":
		s = sdk.AlwaysSample()
	case "always_off":
		s = sdk.NeverSample()
	case "traceidratio":
		ratio := 1.0
		if arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || ratio < 0 || ratio > 1 {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is a share from 0 to 1, not %q", arg)
			}
		}
		s = sdk.TraceIDRatioBased(ratio)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is always_on, always_off, traceidratio, or one of these after parentbased_, not %q", name)
	}
	if byParent {
		s = sdk.ParentBased(s)
	}
	return func(t *saga.Trace) bool { return sampled(s, t) }, nil
}

// sampled asks a sampler. The result for a trace is the same on each node.
func sampled(s sdk.Sampler, t *saga.Trace) bool {
	p := sdk.SamplingParameters{ParentContext: context.Background(), TraceID: trace.TraceID(t.ID)}
	if t.Parent != (saga.SpanID{}) {
		p.ParentContext = trace.ContextWithRemoteSpanContext(p.ParentContext, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: p.TraceID, SpanID: trace.SpanID(t.Parent), TraceFlags: trace.TraceFlags(t.Flags)}))
	} else {
		sum := sha256.Sum256(t.ID[:]) // a ratio sampler uses bits of the id that are constant in UUIDs
		p.TraceID = trace.TraceID(sum[:16])
	}
	return s.ShouldSample(p).Decision == sdk.RecordAndSample
}
