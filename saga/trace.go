package saga

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// TraceID names a trace, SpanID a span of it, as W3C Trace Context has them. All zeros name
// nothing.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// String writes the id in hex.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// String writes the id in hex.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// Flags of a traceparent that mean something to us; others are not passed on.
const (
	FlagSampled byte = 1 // whoever began the trace records it
	flagRandom  byte = 2 // the trace's id is random
)

// Traceparent is the header of that name (https://www.w3.org/TR/trace-context/): where in a trace a request comes from.
type Traceparent struct {
	Trace TraceID
	Span  SpanID
	Flags byte
}

// ParseTraceparent reads a header. Of a version later than 00 it takes what that version shares
// with it. ok is false for what the standard has ignored.
func ParseTraceparent(text string) (p Traceparent, ok bool) {
	const least = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < least || text[2] != '-' || text[35] != '-' || text[52] != '-' || strings.ToLower(text[:least]) != text[:least] {
		return p, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		into []byte
		text string
	}{{version[:], text[:2]}, {p.Trace[:], text[3:35]}, {p.Span[:], text[36:52]}, {flags[:], text[53:55]}} {
		if _, err := hex.Decode(part.into, []byte(part.text)); err != nil {
			return p, false
		}
	}
	switch {
	case version[0] == 0xff, p.Trace == TraceID{}, p.Span == SpanID{}:
		return p, false
	case len(text) > least && (version[0] == 0 || text[least] != '-'):
		return p, false
	}
	p.Flags = flags[0] & (FlagSampled | flagRandom)
	return p, true
}

// String writes the header, in version 00.
func (p Traceparent) String() string {
	return "00-" + p.Trace.String() + "-" + p.Span.String() + "-" + hex.EncodeToString([]byte{p.Flags})
}

// Trace is where a saga's spans belong. Their ids are made of what its journal says, so that
// whoever has the saga, whenever, gives the same ones, and a saga that another node goes on with
// continues its trace.
type Trace struct {
	Saga   uuid.UUID
	ID     TraceID
	Parent SpanID // the span that the saga was started in; zero: none
	Flags  byte
}

// NewTrace returns the trace of a saga: the one that its start came from, else its own, whose id is
// the saga's.
func NewTrace(id uuid.UUID, d StartedData) Trace {
	if p, ok := ParseTraceparent(d.Traceparent); ok {
		return Trace{Saga: id, ID: p.Trace, Parent: p.Span, Flags: p.Flags}
	}
	return Trace{Saga: id, ID: TraceID(id), Flags: FlagSampled}
}

// Root is the span of the saga itself.
func (t *Trace) Root() SpanID { return t.span("saga") }

// Step is the span of a step, or of its undoing.
func (t *Trace) Step(path string, way journal.Way) SpanID { return t.span(path, string(way)) }

// Attempt is the span of one attempt of a step, of its undoing or of its status query.
func (t *Trace) Attempt(path string, way journal.Way, generation, attempt int) SpanID {
	return t.span(path, string(way), strconv.Itoa(generation), strconv.Itoa(attempt))
}

// span makes an id that is never zero of the saga and some words, none of which has a NUL in it.
func (t *Trace) span(words ...string) SpanID {
	sum := sha256.Sum256([]byte(string(t.Saga[:]) + strings.Join(words, "\x00")))
	id := SpanID(sum[:8])
	if id == (SpanID{}) {
		id[7] = 1
	}
	return id
}

// At is the traceparent of what leaves from a span.
func (t *Trace) At(span SpanID) string { return Traceparent{t.ID, span, t.Flags}.String() }

// Traceparent is what goes to the other side with the request, from the attempt's span; "" if the
// saga's trace is not known.
func (s *Send) Traceparent() string {
	if s.Trace == nil {
		return ""
	}
	return s.Trace.At(s.Trace.Attempt(s.Path, s.Way, s.Generation, s.Attempt))
}

// Trace is where the saga's spans belong, once it has started.
func (m *Machine) Trace() *Trace { return &m.trace }
