package crashmatrix

import (
	"errors"
	"fmt"
	"math"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Reached is a saga whose journal ends with the intent of a step's first request.
type Reached struct {
	Saga    uuid.UUID
	Records []journal.Record
	Send    machine.Send // the request, which was not sent
	Input   []byte       // the saga's input
}

// ErrNotReached says that the saga does not come to the step with these answers.
var ErrNotReached = errors.New("the saga does not come to the step: give the input with --input, and answers of the steps before it with --stubs")

// Reach runs a saga on made-up answers until the first request of a step. Nothing is sent. Errors:
// *StartError, ErrNotReached.
func Reach(def *saga.Definition, id uuid.UUID, step string, o Options) (*Reached, error) {
	p, err := newPlan(def, o)
	if err != nil {
		return nil, err
	}
	p.id = id
	if _, err := p.baseline(); err != nil {
		return nil, err
	}
	r := p.newRun("")
	r.until = step
	if _, err := r.drive(); err != nil {
		return nil, err
	}
	if r.reached == nil {
		return nil, fmt.Errorf("%s: %w", step, ErrNotReached)
	}
	records, err := r.store.Records(ctx, id, 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	return &Reached{Saga: id, Records: records, Send: *r.reached, Input: p.o.Input}, nil
}
