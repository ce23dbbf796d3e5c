package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Task is work of a saga's step.
type Task struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Saga    string `json:"saga"`
	Step    string `json:"step"` // its path
	Attempt int    `json:"attempt"`
	Way     string `json:"way"` // do, or undo
	// Key is the same for each attempt: send it on as the idempotency key of what the work does, or
	// remember it with the effect.
	Key   string          `json:"key"`
	Input json.RawMessage `json:"input"`

	Lease      string    `json:"lease"`
	LeaseUntil time.Time `json:"lease_until"`
	LeaseMS    int64     `json:"lease_ms"`
	Deadline   time.Time `json:"deadline"`

	// Traceparent is where in a trace the task comes from (W3C Trace Context): send it on, or begin
	// spans from it. "": nowhere.
	Traceparent string `json:"traceparent"`
}

// lease is how long a heartbeat keeps the task.
func (t *Task) lease() time.Duration { return time.Duration(t.LeaseMS) * time.Millisecond }

// left is how long the work may take, from the claim on. It needs no clock of the server's.
func (t *Task) left() time.Duration { return t.lease() + t.Deadline.Sub(t.LeaseUntil) }

// Why a handler's context was cancelled, as context.Cause says.
var (
	ErrLeaseLost = errors.New("the task's lease is lost: whatever comes of the work is dropped")
	ErrUnwanted  = errors.New("the saga does not want the work any more")
	ErrStopping  = errors.New("the worker is stopping")
)

// failure is how a task failed, for the server.
type failure struct {
	Code      string
	Retryable bool
	InDoubt   bool
	err       error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.err }

// Retryable says that surely nothing has happened, and that another try may help.
func Retryable(err error) error { return &failure{Code: "task_failed", Retryable: true, err: err} }

// InDoubt says that something may have happened. It is what an error that says nothing counts as,
// too.
func InDoubt(err error) error { return &failure{Code: "task_failed", InDoubt: true, err: err} }

// Refuse says that surely nothing has happened, and that there is no use in trying again: the step
// fails with this code (a small letter, then small letters, digits or _), and what was done before
// it is undone.
func Refuse(code, format string, args ...any) error {
	return &failure{Code: code, err: fmt.Errorf(format, args...)}
}

// outcome is what an error says of a task.
func outcome(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return &failure{Code: f.Code, Retryable: f.Retryable, InDoubt: f.InDoubt, err: err}
	}
	return &failure{Code: "task_failed", InDoubt: true, err: err}
}

// spent is what a handler says that its work has cost.
type spent struct {
	mu   sync.Mutex
	cost string
}

type spentKey struct{}

// Cost says in a handler what its work has cost so far, whatever becomes of it: a decimal such as
// "0.02", in the saga's currency. The last word counts.
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
