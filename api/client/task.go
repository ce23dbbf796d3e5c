package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Task is the work of one attempt of a saga's step.
type Task struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Saga    string `json:"saga"`
	Step    string `json:"step"` // the step's path
	Attempt int    `json:"attempt"`
	Way     string `json:"way"` // "do" or "undo"
	// Key is the same for each attempt. Send it as the idempotency key of the request that has the
	// effect, or store it with the effect.
	Key   string          `json:"key"`
	Input json.RawMessage `json:"input"`

	Lease      string    `json:"lease"`
	LeaseUntil time.Time `json:"lease_until"`
	LeaseMS    int64     `json:"lease_ms"`
	Deadline   time.Time `json:"deadline"`

	// Traceparent is the trace context of the task (W3C Trace Context): send it on, or begin spans
	// from it. It may be empty.
	Traceparent string `json:"traceparent"`
}

// lease is the time for which a heartbeat extends the lease.
func (t *Task) lease() time.Duration { return time.Duration(t.LeaseMS) * time.Millisecond }

// left is the time that the work may take, from the claim on. It does not depend on the server's
// clock.
func (t *Task) left() time.Duration { return t.lease() + t.Deadline.Sub(t.LeaseUntil) }

// Causes of the cancellation of a handler's context, which context.Cause returns.
var (
	ErrLeaseLost = errors.New("the task's lease is lost: the result of the work is discarded")
	ErrUnwanted  = errors.New("the saga no longer needs the work")
	ErrStopping  = errors.New("the worker is stopping")
)

// failure is a handler's error in the form that the server accepts.
type failure struct {
	Code      string
	Retryable bool
	InDoubt   bool
	err       error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// Retryable means that the work surely had no effect, and that a retry may succeed.
func Retryable(err error) error { return &failure{Code: "task_failed", Retryable: true, err: err} }

// InDoubt means that the work may have had an effect. An error without Retryable, InDoubt or Refuse
// means the same.
func InDoubt(err error) error { return &failure{Code: "task_failed", InDoubt: true, err: err} }

// Refuse means that the work surely had no effect, and that a retry is useless: the step fails with
// this code (a small letter, then small letters, digits or _), and the saga undoes the steps
// before.
func Refuse(code, format string, args ...any) error {
	return &failure{Code: code, err: fmt.Errorf(format, args...)}
}

// outcome returns the failure that a handler's error stands for.
func outcome(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return &failure{Code: f.Code, Retryable: f.Retryable, InDoubt: f.InDoubt, err: err}
	}
	return &failure{Code: "task_failed", InDoubt: true, err: err}
}

// spent holds the cost that a handler has reported.
type spent struct {
	mu   sync.Mutex
	cost string
}

type spentKey struct{}

// Cost reports the cost of a handler's work so far, which counts even if the work fails: a decimal
// such as "0.02", in the saga's currency. The last call counts.
func Cost(ctx context.Context, decimal string) {
	if s, ok := ctx.Value(spentKey{}).(*spent); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cost = decimal
	}
}

func (s *spent) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cost
}
