package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Undo says how to undo an own step: by a call of an action of the session.
type Undo struct {
	Use  string `json:"use"`
	With any    `json:"with,omitempty"`
}

// Step describes a step that the agent does itself.
type Step struct {
	ID    string
	Input any // a step that was begun with another input is refused
	// Undo and UndoOf say how to undo the step: before it begins, or from its output.
	Undo   *Undo
	UndoOf func(output any) *Undo
	Effect string // none, undoable, irreversible; "": undoable with an Undo or UndoOf, else irreversible
	// InDoubt is what follows if the process dies during the step: retry, or ask (a person). "":
	// see docs/agents.md.
	InDoubt  string
	Reserve  string        // the most that it may cost, such as "0.10"
	Patience time.Duration // how long a person has to decide about a step in doubt, as in Call
}

// Work is what the function of an own step gets. All attempts of the step have the same key.
type Work struct {
	Key     string          `json:"key"`
	Attempt int             `json:"attempt"`
	Input   json.RawMessage `json:"input"`
}

// begun is the response to the begin or finish of a step.
type begun struct {
	Work
	Decision string          `json:"decision"` // go, replay
	Path     string          `json:"path"`
	Status   string          `json:"status"`
	Output   json.RawMessage `json:"output"`
	Error    *Failure        `json:"error"`
}

// Step does an own step unless it is done, and returns its output as the journal has it. do returns
// the output, which is encoded as JSON. An error of [Refuse] says that the step certainly had no
// effect; after any other error it is in doubt, and Step returns this error. [Cost] reports what
// the work has cost. Errors: that of do, *Unsuccessful, ErrWaits, an *Error that refuses the step,
// and that of ctx. If ctx ends during the work, Step still reports the result, for up to 15s.
func (s *Session) Step(ctx context.Context, step Step, do func(ctx context.Context, w Work) (any, error)) (json.RawMessage, error) {
	var p patience
	for {
		var b begun
		err := s.request(ctx, http.MethodPost, "/steps", step.begin(), &b, "Idempotency-Key", rand.Text())
		if refused(err, "in_doubt") {
			if p.over(step.Patience) {
				return nil, fmt.Errorf("%w: %w", ErrWaits, err)
			}
			if err := pause(ctx, time.Second); err != nil {
				return nil, err
			}
			continue
		}
		switch {
		case err != nil:
			return nil, err
		case b.Decision == "replay" && b.Status == "succeeded":
			return b.Output, nil
		case b.Decision == "replay":
			return nil, unsuccessful(b.Path, b.Status, b.Error)
		}
		output, again, err := s.attempt(ctx, step, b.Work, do)
		if !again {
			return output, err
		}
	}
}

// reportTime is how long the end of a step is reported after the end of the context of Step.
const reportTime = 15 * time.Second

// begin returns the body of the request that begins the step.
func (s Step) begin() map[string]any {
	body := map[string]any{"id": s.ID, "input": s.Input, "effect": s.Effect}
	switch {
	case s.Effect != "":
	case s.Undo != nil || s.UndoOf != nil:
		body["effect"] = "undoable"
	default:
		body["effect"] = "irreversible"
	}
	if s.Undo != nil {
		body["compensate"] = s.Undo
	}
	if s.InDoubt != "" {
		body["in_doubt"] = s.InDoubt
	}
	if s.Reserve != "" {
		body["reserve"] = s.Reserve
	}
	return body
}

// attempt does the step once, and reports how it ended. again says that an earlier attempt is in
// doubt, so that this one does not settle the step.
func (s *Session) attempt(ctx context.Context, step Step, w Work, do func(context.Context, Work) (any, error)) (out json.RawMessage, again bool, _ error) {
	var cost spent
	output, failed := do(context.WithValue(ctx, spentKey{}, &cost), w)
	end := map[string]any{"status": "succeeded", "output": output, "attempt": w.Attempt}
	if failed == nil && step.UndoOf != nil {
		end["compensate"] = step.UndoOf(output)
	}
	if failed == nil { // a result that cannot be reported leaves the step in doubt
		_, failed = encode(end)
	}
	if failed != nil {
		end = map[string]any{"attempt": w.Attempt, "status": "in_doubt", "error": failed.Error()}
		if f := outcome(failed); !f.InDoubt {
			end["status"], end["error"] = "failed", map[string]string{"code": f.Code, "detail": failed.Error()}
		}
	}
	if c := cost.get(); c != "" {
		end["cost"] = c
	}
	var view begun
	// The work is done, so its result is reported even if ctx has ended meanwhile.
	report, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer after(ctx, reportTime, cancel)()
	if err := s.request(report, http.MethodPost, "/steps/"+url.PathEscape(step.ID)+"/finish", end, &view); err != nil {
		if report.Err() != nil {
			err = fmt.Errorf("the end of the own step %s is not recorded: %w", step.ID, errors.Join(ctx.Err(), err))
		}
		return nil, false, err
	}
	switch {
	case view.Status == "succeeded":
		return view.Output, false, nil
	case end["status"] == "in_doubt":
		return nil, false, failed
	case view.Status == "failed":
		return nil, false, unsuccessful(view.Path, view.Status, view.Error)
	}
	return nil, true, nil
}
