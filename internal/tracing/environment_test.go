package tracing_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/tracing"
	"recourse/saga"
)

func TestWanted(t *testing.T) {
	const at = "http://127.0.0.1:4318"
	for _, tt := range []struct {
		endpoint string
		env      map[string]string
		want     bool
	}{
		{"", nil, false},
		{at, nil, true},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at}, true},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": at}, true},
		{at, map[string]string{"OTEL_SDK_DISABLED": "true"}, false},
		{at, map[string]string{"OTEL_SDK_DISABLED": "no"}, true},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		if got := tracing.Wanted(tt.endpoint, tt.env); got != tt.want {
			t.Errorf("%q, %v: %v", tt.endpoint, tt.env, got)
		}
	}
}

func TestExporterRefuses(t *testing.T) {
	for _, endpoint := range []string{"127.0.0.1:4318", "grpc://a.example", "http://", "http://a.example?x=1", "http://a b", "http://u:p@a.example"} {
		if _, err := tracing.Exporter(t.Context(), endpoint, nil); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:4318") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// A sampler always returns the same for a trace, and a ratio is exact although some bits of the ids
// are not random.
func TestSampler(t *testing.T) {
	parse := func(text string) *saga.Trace {
		out := saga.NewTrace(uuid.Must(uuid.NewV7()), saga.StartedData{Traceparent: text})
		return &out
	}
	own, recorded, not := parse(""), parse(incoming), parse(incoming[:53]+"00")
	for _, tt := range []struct {
		name, arg           string
		own, recorded, dark bool
	}{
		{"", "", true, true, false},
		{"always_on", "", true, true, true},
		{"always_off", "", false, false, false},
		{"parentbased_always_on", "", true, true, false},
		{"parentbased_always_off", "", false, true, false},
		{"traceidratio", "0", false, false, false},
		{"traceidratio", "", true, true, true},
		{"parentbased_traceidratio", "0", false, true, false},
	} {
		sample, err := tracing.Sampler(map[string]string{"OTEL_TRACES_SAMPLER": tt.name, "OTEL_TRACES_SAMPLER_ARG": tt.arg})
		if err != nil {
			t.Fatal(err)
		}
		if a, b, c := sample(own), sample(recorded), sample(not); a != tt.own || b != tt.recorded || c != tt.dark {
			t.Errorf("%s %s: %v, %v, %v", tt.name, tt.arg, a, b, c)
		}
	}
	third, err := tracing.Sampler(map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.3"})
	if err != nil {
		t.Fatal(err)
	}
	r, n := rand.New(rand.NewPCG(1, 2)), 0
	for range 10_000 {
		var id uuid.UUID
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		id.SetVersion(uuid.V7)
		id.SetVariant(uuid.VariantRFC9562)
		one := saga.NewTrace(id, saga.StartedData{})
		if third(&one) {
			n++
		}
		if again := third(&one); again != third(&one) {
			t.Fatal("it says one thing, then another")
		}
	}
	if n < 2700 || n > 3300 {
		t.Errorf("%d of 10000 are sampled, want about 3000", n)
	}
	for name, arg := range map[string]string{"half": "", "traceidratio": "2", "parentbased_traceidratio": "x", "parentbased_": ""} {
		if _, err := tracing.Sampler(map[string]string{"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": arg}); err == nil {
			t.Errorf("%s %s is taken", name, arg)
		}
	}
}

// A trace that is not recorded is not exported.
func TestUnsampled(t *testing.T) {
	p := played(t)
	sample, err := tracing.Sampler(map[string]string{"OTEL_TRACES_SAMPLER": "always_off"})
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []int{0, 3} {
		s := &sink{}
		tr := tracing.New(tracing.Config{Export: s, Sample: sample})
		feed(tr, p, before)
		if err := tr.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.spans) != 0 || tr.Dropped() != 0 {
			t.Errorf("%d spans are exported, %d dropped", len(s.spans), tr.Dropped())
		}
	}
}
