package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/tracing"
	"recourse/saga/kinds/llm"
)

// TracesFlag configures the export of spans.
type TracesFlag struct {
	OTLPEndpoint string `name:"otlp-endpoint" env:"RECOURSE_OTLP_ENDPOINT" placeholder:"URL" help:"OpenTelemetry collector for traces, over OTLP/HTTP, such as http://127.0.0.1:4318. OTEL_EXPORTER_OTLP_ENDPOINT works, too. Default: none."`
}

// Tracer returns the exporter of spans, nil if none is configured.
func (f TracesFlag) Tracer(a *cli.App, models llm.Config, log *slog.Logger) (*tracing.Tracer, error) {
	if !tracing.Wanted(f.OTLPEndpoint, a.Variables) {
		return nil, nil
	}
	sample, err := tracing.Sampler(a.Variables)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	export, err := tracing.Exporter(a.Ctx, f.OTLPEndpoint, a.Variables)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--otlp-endpoint: %w", err))
	}
	instance, err := uuid.NewV4()
	if err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	if protocol := a.Variables["OTEL_EXPORTER_OTLP_PROTOCOL"]; protocol != "" && protocol != "http/protobuf" {
		log.Warn("spans are exported as http/protobuf only: name the collector's port for that, mostly 4318", "OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	}
	return tracing.New(tracing.Config{Export: export, Sample: sample, Provider: models.ProviderAt, Log: log,
		Resource: tracing.Resource{Version: a.Version, Instance: instance.String()}}), nil
}

// traceURL is the URL of a trace, for links.
type traceURL string

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *traceURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(string(text), "{trace_id}") {
		return errors.New("it is an http or https URL with {trace_id} in it, such as https://jaeger.example/trace/{trace_id}")
	}
	*t = traceURL(text)
	return nil
}
