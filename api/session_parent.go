package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// parent reads the field parent of a session; Nil: it has none. key is that of the start.
func (o *object) parent(key string) uuid.UUID {
	text := o.str("parent")
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.FromString(text)
	switch {
	case err != nil:
		o.bad("/parent", "bad_id", "parent is the whole id of the saga or session whose budget pays for this one")
	case key == "":
		o.bad("/key", "missing_field", "a session with a parent needs a key, so that a request which is repeated finds what was reserved for it")
	}
	return id
}

// beginBelow opens a session that belongs to a saga or to another session. The parent reserves a
// part of its budget first, under the key of the start: a request that is repeated finds this part
// instead of reserving another one. Errors: saga_not_found, forbidden, parent_ended,
// budget_exhausted, and those of begin. If the request names no amount, that of the start's options
// is the most that the caller's key allows.
func (s *server) beginBelow(ctx context.Context, c echo.Context, parent uuid.UUID, named bool, b beginning) (machine.Begun, bool, error) {
	if head, err := s.byKey(ctx, b); err != nil || head != nil {
		if err != nil {
			return machine.Begun{}, false, err
		}
		begun, err := s.confirmed(ctx, head.ID)
		return begun, true, err
	}
	// Whatever is wrong with the start itself is said before anything is reserved for it.
	start, data, err := s.validStart(b)
	if err != nil {
		return machine.Begun{}, false, err
	}
	l, err := s.load(ctx, parent)
	if err != nil {
		return machine.Begun{}, false, err
	}
	if err := callerOf(c).mayCommand(l.m.Starter(), ""); err != nil {
		return machine.Begun{}, false, err
	}
	wanted := saga.BudgetData{}
	if data.Budget != nil {
		wanted = *data.Budget
	}
	o := saga.Reserve{Key: b.key, Part: &wanted}
	if !named && wanted.Amount != "" {
		o.Most, wanted.Amount = &saga.BudgetData{Amount: wanted.Amount, Currency: wanted.Currency}, ""
	}
	if wanted.Amount == "" {
		wanted.Currency = b.def.Currency // what is left of the parent's budget may be in another one
	}
	id, part, err := l.reserve(c, o)
	if err != nil {
		return machine.Begun{}, false, err
	}
	start.Parent = parent
	data.Budget, data.BelongsTo = part, &saga.BelongsTo{Saga: parent.String(), Key: b.key, Budget: part}
	err = s.cfg.Engine.StartAs(ctx, id, b.def, start, data)
	switch {
	case errors.Is(err, journal.ErrStartKey), errors.Is(err, journal.ErrConflict):
		return s.begun(ctx, b, "", machine.Begun{}, journal.ErrStartKey)
	case errors.Is(err, journal.ErrParentEnded):
		return machine.Begun{}, false, parentEnded(parent)
	case err != nil:
		return machine.Begun{}, false, err
	}
	return found(id), false, nil
}

// reserve lets the saga reserve a part of its budget for a session, unless it has done so. It
// returns the session's id, and the part; nil: the saga has no budget.
func (l *live) reserve(c echo.Context, wanted saga.Reserve) (id uuid.UUID, part *saga.BudgetData, err error) {
	if id, part, ok := l.m.Guest(wanted.Key); ok {
		return id, part, checkReserved(wanted.Part, part)
	}
	if l.ended() {
		return uuid.Nil, nil, parentEnded(l.id)
	}
	done, err := l.execute(c, saga.Command{Do: wanted})
	if id, part, ok := l.m.Guest(wanted.Key); ok { // perhaps for a request with the same key at the same time
		return id, part, checkReserved(wanted.Part, part)
	}
	switch {
	case err != nil && l.ended(): // meanwhile
		return uuid.Nil, nil, parentEnded(l.id)
	case err != nil:
		return uuid.Nil, nil, err
	case !done:
		return uuid.Nil, nil, fail("unavailable", "no node has read yet that the parent shall reserve a part of its budget: send the same request again").of(l.id).after(1)
	}
	return uuid.Nil, nil, fmt.Errorf("saga %s: %w: nothing is reserved under key %q", l.id, saga.ErrUnreadable, wanted.Key)
}

// checkReserved returns an error if the part that is reserved under a key is not the one that this
// request asks for: another request has reserved it, and did not come to its start.
func checkReserved(wanted, part *saga.BudgetData) error {
	have := saga.BudgetData{}
	if part != nil {
		have = *part
	}
	switch {
	case wanted.Amount != "" && (wanted.Amount != have.Amount || wanted.Currency != "" && wanted.Currency != have.Currency),
		wanted.Currency != "" && have.Currency != "" && wanted.Currency != have.Currency,
		wanted.Tokens != 0 && wanted.Tokens != have.Tokens:
		return keyReused()
	}
	return nil
}

func parentEnded(id uuid.UUID) *problem {
	return fail(saga.CodeParentEnded, "saga %s is ending, is being undone, or has ended: open the session without `parent`, or with another one", id).of(id)
}
