package saga

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"recourse/saga/expr"
)

// SessionPrefix begins the name of a session's definition. No published definition's name does.
const SessionPrefix = "~"

// RunPrefix begins the name of the definition of a saga that only runs one action.
const RunPrefix = "~action/"

// IsSession reports whether a definition with this name is that of a session.
func IsSession(definition string) bool {
	return strings.HasPrefix(definition, SessionPrefix) && !strings.HasPrefix(definition, RunPrefix)
}

// SessionData is a session's policy, in the data of `started`. Durations are written as in
// definitions.
type SessionData struct {
	Name        string   `json:"name"`
	Actions     []string `json:"actions"` // with their versions: refund@3
	MaxCalls    int      `json:"max_calls,omitempty"`
	MaxParallel int      `json:"max_parallel,omitempty"`
	MaxAsks     int      `json:"max_asks,omitempty"`
	MaxSteps    int      `json:"max_steps,omitempty"`
	Lease       string   `json:"lease,omitempty"`     // how long a life lasts without a heartbeat
	OnLost      *OnLost  `json:"on_lost,omitempty"`   // nil: the default
	Timeout     string   `json:"timeout,omitempty"`   // of the session; "": none
	OnExceed    OnExceed `json:"on_exceed,omitempty"` // "": ExceedFail

	Models       []string     `json:"models,omitempty"`        // that the agent may ask; nil: all
	OnDivergence OnDivergence `json:"on_divergence,omitempty"` // "": DivergenceGuard
	// Ignore are patterns (RE2) of texts in requests that do not matter when they are compared.
	Ignore     []string     `json:"ignore,omitempty"`
	StreamHold StreamHold   `json:"stream_hold,omitempty"` // "": HoldTools
	Keep       KeepContents `json:"keep,omitempty"`        // "": KeepFull
}

// OnExceed says what happens to what the budget does not cover.
type OnExceed string

// The values of OnExceed.
const (
	ExceedFail OnExceed = "fail" // it is refused
	ExceedAsk  OnExceed = "ask"  // it waits until a person raises the budget
)

// OnDivergence says what happens when an agent's process asks a model something else than an
// earlier one did at the same place.
type OnDivergence string

// The values of OnDivergence.
const (
	DivergenceGuard  OnDivergence = "guard"  // the model is asked; calls that may repeat an effect wait for a person
	DivergenceStop   OnDivergence = "stop"   // the request is refused
	DivergenceIgnore OnDivergence = "ignore" // it is recorded only
)

// StreamHold says which parts of a response wait until it is in the journal.
type StreamHold string

// The values of StreamHold.
const (
	HoldTools StreamHold = "tools" // from the first part of a tool call on, and the end
	HoldAll   StreamHold = "all"
)

// KeepContents says which contents of requests are stored.
type KeepContents string

// The values of KeepContents.
const (
	KeepFull    KeepContents = "full"
	KeepAnswers KeepContents = "answers" // answers, and only the hashes of prompts
)

// Complete writes the defaults into the policy, so that a session does not change with them.
func (d *SessionData) Complete() {
	lost := OnLost{}
	if d.OnLost != nil {
		lost = *d.OnLost
	}
	d.MaxCalls, d.MaxParallel = cmp.Or(d.MaxCalls, DefaultMaxCalls), cmp.Or(d.MaxParallel, DefaultMaxParallel)
	d.MaxAsks, d.MaxSteps = cmp.Or(d.MaxAsks, DefaultMaxAsks), cmp.Or(d.MaxSteps, DefaultMaxSteps)
	d.Lease = cmp.Or(d.Lease, Duration(DefaultLease))
	d.OnDivergence, d.StreamHold, d.Keep = cmp.Or(d.OnDivergence, DivergenceGuard), cmp.Or(d.StreamHold, HoldTools), cmp.Or(d.Keep, KeepFull)
	d.OnLost = &OnLost{Wait: cmp.Or(lost.Wait, Duration(DefaultLostWait)), Then: cmp.Or(lost.Then, HoldSession)}
}

// OnLost says what happens to a session without a live process.
type OnLost struct {
	Wait string   `json:"wait,omitempty"` // how long it waits for another process
	Then LostThen `json:"then,omitempty"` // what follows then
}

// LostThen says what follows when no process has come back.
type LostThen string

// The values of LostThen.
const (
	HoldSession  LostThen = "hold"  // a person decides
	AbortSession LostThen = "abort" // its calls are undone
)

// Defaults and bounds of a session's policy.
const (
	DefaultLease       = 30 * time.Second
	MinLease           = 5 * time.Second
	MaxLease           = 10 * time.Minute
	DefaultLostWait    = time.Hour
	DefaultMaxCalls    = 200
	DefaultMaxParallel = 8
	DefaultMaxAsks     = 2_000
	DefaultMaxSteps    = 2_000
	MaxSessionCalls    = 10_000 // the most that each of these may be
)

// Session is the policy of a session: a saga without steps of its own, whose steps are the actions
// that its agent calls, one by one.
type Session struct {
	Data        *SessionData              // that it was compiled from
	Actions     map[string]*SessionAction // by name
	MaxCalls    int                       // of all actions together
	MaxParallel int                       // calls in flight at once; further calls wait
	MaxAsks     int                       // requests to models
	MaxSteps    int                       // own steps
	Lease       time.Duration             // how long a life lasts without a heartbeat
	LostWait    time.Duration             // how long the session waits for a process when it has none
	LostThen    LostThen                  // what follows then
	Name        string
	Ask         *Step            // that a request to a model becomes; nil: the program has no such kind
	Ignore      []*regexp.Regexp // see SessionData
}

// SessionAction is an action that the agent may call.
type SessionAction struct {
	Step   *Step          // that a call becomes, with a path of its own, such as refund[0]
	Undo   *Compensation  // of an own step that this action undoes
	Agents *AgentPolicy   // nil: agents may not call it
	Once   *expr.Template // see Action
}

// SessionTimers are the timers of a session, in the data of `woke`.
const (
	TimerLease  = "lease"  // a life has ended, because its process sent no heartbeat
	TimerDetach = "detach" // a life has ended, because its process has detached
	TimerLost   = "lost"   // no process came back in time
)

// CallIdentity returns what makes two calls of an action the same effect, from the first of these
// that is there: an id that the caller gives, the value of the action's `once`, and the input. Two
// inputs are the same if they differ only in space and in the order of members; numbers keep their
// digits, so 1.0 is not 1. again, if it is not 0, makes a call with the same input another one.
// Errors: once or input is not JSON.
func CallIdentity(action, id string, once, input json.RawMessage, again int) (string, error) {
	switch {
	case id != "":
		return "id:" + id, nil
	case once != nil:
		return digest("once:"+action+":", once)
	case again != 0:
		return digest("again:"+strconv.Itoa(again)+":"+action+":", input)
	}
	return digest("input:"+action+":", input)
}

// ReadIdentity returns the identity of the calls of an action that only reads. Errors: input is not
// JSON.
func ReadIdentity(action string, input json.RawMessage) (string, error) {
	return digest("read:"+action+":", input)
}

// digest returns the prefix and the hash of a document in canonical form.
func digest(prefix string, doc json.RawMessage) (string, error) {
	canonical, err := canonical(doc)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return prefix + hex.EncodeToString(sum[:]), nil
}

func canonical(doc json.RawMessage) ([]byte, error) {
	v, err := expr.Decode(doc)
	if err != nil {
		return nil, err
	}
	return Encode(v), nil
}

// SameInput reports whether two inputs are the same, as CallIdentity compares them.
func SameInput(a, b json.RawMessage) bool {
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// CallKind says what a session asks for.
type CallKind string

// The kinds of a call.
const (
	ActionCall CallKind = "call" // an action, which recourse carries out
	OwnStep    CallKind = "own"  // a step that the agent carries out itself
	ModelAsk   CallKind = "ask"  // a language model
)

// Divergence says that an agent's process has asked a model something else than an earlier one.
type Divergence struct {
	From    string `json:"from"`              // the earlier request's path
	Pointer string `json:"pointer,omitempty"` // a JSON pointer (RFC 6901) to the first difference; "": not known
}

// AttachedData is the data of `attached`: a process of the agent begins a life of the session. It
// fences the life before. A process whose lease was lost, and that no other process has followed,
// gets its own life again.
type AttachedData struct {
	Message string `json:"message"` // the id of the command
	Life    int    `json:"life"`    // 1, 2, 3 …
	Holder  string `json:"holder,omitempty"`
	Token   string `json:"token"` // the SHA-256, in hex, of the secret of the process
}

// CalledData is the data of `called`: it adds a step to the session, or begins another attempt of
// an own step. The record's path is the step's: refund[0] for a call, with the number of the
// action's calls before this one, own.ID for an own step, and llm[0] for
// a request to a model.
type CalledData struct {
	Message  string          `json:"message"` // the id of the command
	Life     int             `json:"life"`
	What     CallKind        `json:"what"`
	Action   string          `json:"action,omitempty"`
	Identity string          `json:"identity"`          // what makes two of them the same
	N        int             `json:"n"`                 // how many there were with this identity before
	Input    json.RawMessage `json:"input,omitempty"`   // with the defaults of the action's schema
	Approve  bool            `json:"approve,omitempty"` // a person approves it before it is sent
	Own      *OwnData        `json:"own,omitempty"`     // of an own step's first attempt
	Request  string          `json:"request,omitempty"` // the Idempotency-Key of the request that began the attempt
	Diverged *Divergence     `json:"diverged,omitempty"`
	// Resembles is the path of a call of an earlier life. A person has to say whether this one
	// means the same effect.
	Resembles string `json:"resembles,omitempty"`
}

// The outcomes of a call that may repeat one of an earlier life.
const (
	SameEffect = "same" // nothing is sent, and the answer is that of the earlier call
	NewEffect  = "new"  // it is sent
)

// CommittedData is the data of `committed`: the agent's work is over, and only another saga can
// undo it.
type CommittedData struct {
	Message string          `json:"message"` // the id of the command
	Output  json.RawMessage `json:"output,omitempty"`
}

// Visible returns a document in which characters that a reader cannot see, or that change the order
// of the text around them, are written as escapes: control characters, and the bidirectional and
// invisible characters of Unicode's category Cf.
func Visible(doc json.RawMessage) any {
	v, err := expr.Decode(doc)
	if err != nil {
		return nil
	}
	return visible(v)
}

func visible(v any) any {
	switch v := v.(type) {
	case string:
		return VisibleText(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = visible(v[i])
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for name, field := range v { // any order
			fields[VisibleText(name)] = visible(field)
		}
		return fields
	}
	return v
}

// VisibleText returns a text with the escapes of [Visible].
func VisibleText(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) || r == '\\' { // the escapes begin with a backslash
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a reader cannot see a character, or it changes the order or the lines of
// the text around it.
func hidden(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0': // fillers
		return true
	}
	if unicode.In(r, unicode.Zl, unicode.Zp, unicode.Variation_Selector) {
		return true
	}
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r)
}
