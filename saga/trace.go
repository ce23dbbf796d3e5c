package saga

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// TraceID is a trace's id in the format of W3C Trace Context. All zeros mean no id.
type TraceID [16]byte

// SpanID is a span's id in the format of W3C Trace Context. All zeros mean no id.
type SpanID [8]byte

// String writes the id in hex.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// String writes the id in hex.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// Flags of a traceparent that this program knows. Others are not passed on.
const (
	FlagSampled byte = 1 // the caller records the trace
	flagRandom  byte = 2 // the trace's id is random
)

// Traceparent is the header of that name (https://www.w3.org/TR/trace-context/). It says to which
// span of which trace a request belongs.
type Traceparent struct {
	Trace TraceID
	Span  SpanID
	Flags byte
}

// ParseTraceparent parses a header. Of versions after 00 it reads the fields that version 00
// defines. ok is false for a header that the standard says to ignore.
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

// String formats the header in version 00.
func (p Traceparent) String() string {
	return "00-" + p.Trace.String() + "-" + p.Span.String() + "-" + hex.EncodeToString([]byte{p.Flags})
}

// Trace computes the ids of a saga's spans. They are derived from the saga's journal, so that every
// node gives the same ids, at any time, and a node that takes over a saga continues its trace.
type Trace struct {
	Saga   uuid.UUID
	ID     TraceID
	Parent SpanID // the span in which the saga was started; zero: none
	Flags  byte
}

// NewTrace returns the trace of a saga: the trace of its start, or else a trace of its own, whose
// id is the saga's id.
func NewTrace(id uuid.UUID, d StartedData) Trace {
	if p, ok := ParseTraceparent(d.Traceparent); ok {
		return Trace{Saga: id, ID: p.Trace, Parent: p.Span, Flags: p.Flags}
	}
	return Trace{Saga: id, ID: TraceID(id), Flags: FlagSampled}
}

// Root returns the span of the saga itself.
func (t *Trace) Root() SpanID { return t.span("saga") }

// Step returns the span of a step, or of its compensation.
func (t *Trace) Step(path string, way journal.Way) SpanID { return t.span(path, string(way)) }

// Attempt returns the span of one attempt of a step, of its compensation or of its status check.
func (t *Trace) Attempt(path string, way journal.Way, generation, attempt int) SpanID {
	return t.span(path, string(way), strconv.Itoa(generation), strconv.Itoa(attempt))
}

// span returns an id that is never zero, derived from the saga and some words. None of the words
// contains a NUL.
func (t *Trace) span(words ...string) SpanID {
	sum := sha256.Sum256([]byte(string(t.Saga[:]) + strings.Join(words, "\x00")))
	id := SpanID(sum[:8])
	if id == (SpanID{}) {
		id[7] = 1
	}
	return id
}

// At returns the traceparent of a request that is sent from a span.
func (t *Trace) At(span SpanID) string { return Traceparent{t.ID, span, t.Flags}.String() }
