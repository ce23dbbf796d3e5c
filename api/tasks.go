package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds/task"
	"recourse/saga/machine"
)

// Bounds of requests of workers.
const (
	maxTypes   = 64
	maxWorker  = 128
	maxTasks   = 100
	minLease   = time.Second
	maxLease   = time.Hour
	maxOutput  = 1 << 20
	maxCode    = 64
	maxTitle   = 200
	maxDetail  = 2000
	maxUnknown = 3 // attempts of a claim whose outcome is unknown
)

// claimRequest is the body of a claim.
type claimRequest struct {
	claim journal.TaskClaim
	wait  time.Duration
}

// taskView is a claimed task in the response.
type taskView struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Saga       string          `json:"saga"`
	Step       string          `json:"step"`
	Attempt    int             `json:"attempt"`
	Way        journal.Way     `json:"way"`
	Key        string          `json:"key"`
	Input      json.RawMessage `json:"input"`
	Lease      string          `json:"lease"`
	LeaseUntil saga.Time       `json:"lease_until"`
	LeaseMS    int64           `json:"lease_ms"` // for workers whose clocks differ
	Deadline   saga.Time       `json:"deadline"`
	// Traceparent is the trace context for the worker. It is absent if an older node created the
	// task.
	Traceparent string `json:"traceparent,omitempty"`
}

// claimTasks serves POST /v1/tasks/claim.
func (s *server) claimTasks(c echo.Context) error {
	req, err := s.readClaim(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), req.wait+s.cfg.Limits.Request)
	defer cancel()
	list, err := s.claim(ctx, req)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	views := make([]taskView, len(list))
	for i, t := range list {
		views[i] = taskView{ID: t.ID.String(), Type: t.Type, Saga: t.Saga.String(), Step: t.Path, Attempt: t.Attempt, Way: t.Way, Key: t.Key, Input: t.Input,
			Lease: leaseOf(t, req.claim.Token).String(), LeaseUntil: saga.Time{Time: t.Until},
			LeaseMS: min(cmp.Or(req.claim.Lease, t.Task.Lease), t.Timeout).Milliseconds(), Deadline: saga.Time{Time: t.Deadline}, Traceparent: t.Traceparent}
	}
	return reply(c, http.StatusOK, map[string]any{"data": views})
}

func (s *server) readClaim(c echo.Context) (claimRequest, error) {
	o, err := s.readObject(c, "types", "worker", "max", "wait", "lease")
	if err != nil {
		return claimRequest{}, err
	}
	r := claimRequest{claim: journal.TaskClaim{Worker: o.str("worker"), Types: o.types(), Max: 1}, wait: o.within("wait", 0, s.cfg.Limits.Wait)}
	if o.into("max", &r.claim.Max, "a whole number") && (r.claim.Max < 1 || r.claim.Max > maxTasks) {
		o.bad("/max", "bad_max", "max is from 1 to %d", maxTasks)
	}
	if utf8.RuneCountInString(r.claim.Worker) > maxWorker || hasControl(r.claim.Worker) {
		o.bad("/worker", "bad_worker", "worker is a name of at most %d characters", maxWorker)
	}
	if r.claim.Worker == "" {
		r.claim.Worker = callerOf(c).name
	}
	if _, ok := o.fields["lease"]; ok {
		r.claim.Lease = o.within("lease", minLease, maxLease)
	}
	if err := o.err(); err != nil {
		return claimRequest{}, err
	}
	r.claim.Token, err = uuid.NewV4()
	return r, err
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// types reads the types of tasks that a worker accepts.
func (o *object) types() []string {
	var list []string
	o.into("types", &list, "a list of texts")
	switch {
	case len(o.wrong) > 0:
	case len(list) == 0:
		o.bad("/types", "missing_field", "name at least one type of tasks that the worker accepts")
	case len(list) > maxTypes:
		o.bad("/types", "too_many", "a claim names at most %d types", maxTypes)
	}
	for i, t := range list {
		if !task.Type(t) {
			o.bad(fmt.Sprintf("/types/%d", i), "bad_type", "%.40q is not a type: a type is a small letter, then up to 127 small letters, digits, dots, - or _", t)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// within reads a duration between two bounds; 0 if it is absent.
func (o *object) within(name string, least, most time.Duration) time.Duration {
	text := o.str(name)
	if text == "" {
		return 0
	}
	d, err := dsl.ParseDuration(text)
	if err != nil || d < least || d > most {
		o.bad("/"+name, "bad_duration", "%s is a duration such as \"30s\", from %v to %v", name, least, most)
		return 0
	}
	return d
}

// claim claims tasks, and waits for some if there are none.
func (s *server) claim(ctx context.Context, r claimRequest) ([]journal.ClaimedTask, error) {
	list, err := s.claimNow(ctx, r.claim)
	if len(list) > 0 || err != nil || r.wait == 0 {
		return list, err
	}
	turn, leave, ok := s.polls.enter(r.claim.Types, s.cfg.Limits.Polls)
	if !ok {
		return nil, fail("too_many_polls", "retry in a second, or claim without `wait`; a worker needs only one claim at a time, for all its types").after(1)
	}
	defer leave()
	timer := time.NewTimer(r.wait)
	defer timer.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	mine := false // whether this claim has the right to poll
	for {
		var poll <-chan time.Time
		if mine {
			poll = next.C
		}
		select {
		case turn <- struct{}{}:
			mine = true
			defer func() { <-turn }()
			continue
		case <-poll:
		case <-timer.C:
			return nil, nil
		case <-s.cfg.Done:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if list, err = s.claimNow(ctx, r.claim); len(list) > 0 || err != nil {
			return list, err
		}
		next.Reset(jittered(s.cfg.Limits.TaskPoll))
	}
}

// claimNow claims tasks without waiting. The leases of claimed tasks run from then on, so a claim
// with an unknown outcome is repeated: the same token claims the same tasks.
func (s *server) claimNow(ctx context.Context, c journal.TaskClaim) (list []journal.ClaimedTask, err error) {
	for range maxUnknown {
		if list, err = s.cfg.Store.ClaimTasks(ctx, c); !errors.Is(err, journal.ErrUnknown) {
			break
		}
	}
	return list, err
}

// lease is a worker's proof that it owns a task. It also contains the attempt that the task belongs
// to; the task's id is derived from the attempt and confirms it.
type lease struct {
	token   uuid.UUID
	saga    uuid.UUID
	path    string
	way     journal.Way
	attempt int
}

func leaseOf(t journal.ClaimedTask, token uuid.UUID) lease {
	return lease{token: token, saga: t.Saga, path: t.Path, way: t.Way, attempt: t.Attempt}
}

// String encodes the lease as text.
func (l lease) String() string {
	b := slices.Concat(l.token.Bytes(), l.saga.Bytes())
	b = binary.AppendUvarint(b, uint64(l.attempt))
	undo := byte(0)
	if l.way == journal.Undo {
		undo = 1
	}
	b = append(append(b, undo), l.path...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseLease decodes a lease. It fails unless the task with this id belongs to the attempt in the
// lease.
func parseLease(text string, id uuid.UUID) (lease, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 2*uuid.Size {
		return lease{}, false
	}
	l := lease{token: uuid.UUID(b[:uuid.Size]), saga: uuid.UUID(b[uuid.Size : 2*uuid.Size]), way: journal.Do}
	b = b[2*uuid.Size:]
	attempt, n := binary.Uvarint(b)
	if n <= 0 || attempt > 1<<31 || len(b) == n {
		return lease{}, false
	}
	if l.attempt = int(attempt); b[n] == 1 {
		l.way = journal.Undo
	}
	l.path = string(b[n+1:])
	if l.path == "" { // the lease of a session's life, which only its process extends
		return lease{}, false
	}
	return l, machine.TaskID(l.saga, l.path, l.way, l.attempt) == id
}

func leaseLost() *problem {
	return fail("lease_lost", "stop working on the task, and claim again: its lease has expired or is not this one, or the task has ended otherwise. The step's in_doubt policy decides about effects of the work")
}

// leased reads the task's id in the path and its lease in the body.
func (o *object) leased(c echo.Context) (uuid.UUID, lease, error) {
	text := o.str("lease")
	if text == "" {
		o.bad("/lease", "missing_field", "send the `lease` that the claim returned with the task")
	}
	if err := o.err(); err != nil {
		return uuid.Nil, lease{}, err
	}
	id, err := uuid.FromString(param(c, "id"))
	if err != nil {
		return uuid.Nil, lease{}, fail("not_found", "a task's id is a UUID, as the claim returned it")
	}
	l, ok := parseLease(text, id)
	if !ok {
		return uuid.Nil, lease{}, leaseLost()
	}
	return id, l, nil
}

// heartbeat serves POST /v1/tasks/{id}/heartbeat.
func (s *server) heartbeat(c echo.Context) error {
	o, err := s.readObject(c, "lease")
	if err != nil {
		return err
	}
	id, l, err := o.leased(c)
	if err != nil {
		return err
	}
	got, err := s.cfg.Store.Heartbeat(c.Request().Context(), id, l.token)
	if errors.Is(err, journal.ErrTaskLost) {
		return leaseLost()
	}
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, map[string]any{"lease_until": saga.Time{Time: got.Until}, "cancel": got.Cancel})
}

// completeTask serves POST /v1/tasks/{id}/complete.
func (s *server) completeTask(c echo.Context) error {
	o, err := s.readObject(c, "lease", "output", "cost")
	if err != nil {
		return err
	}
	r := saga.TaskResult{Outcome: saga.TaskCompleted, Output: o.raw("output"), Cost: o.cost()}
	if len(r.Output) > maxOutput {
		return fail("body_too_large", "an output has at most %d bytes: store it elsewhere, and return a reference", maxOutput)
	}
	if r.Output == nil {
		r.Output = json.RawMessage("null")
	}
	return s.endTask(c, o, r)
}

// failTask serves POST /v1/tasks/{id}/fail.
func (s *server) failTask(c echo.Context) error {
	o, err := s.readObject(c, "lease", "error", "retryable", "in_doubt", "cost")
	if err != nil {
		return err
	}
	r := saga.TaskResult{Outcome: saga.TaskFailed, Error: o.failure(), Retryable: o.flag("retryable"), InDoubt: o.flag("in_doubt"), Cost: o.cost()}
	if r.Retryable && r.InDoubt {
		o.bad("/retryable", "bad_field", "retryable says that nothing has happened, in_doubt that something may have happened: send one of them; the step's in_doubt policy decides about retries in doubt")
	}
	return s.endTask(c, o, r)
}

var (
	costForm = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,12})?$`)
	codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// cost reads a task's cost, as text or as a number.
func (o *object) cost() string { return o.decimal("cost") }

// decimal reads an amount of money in the saga's currency, as text or as a number.
func (o *object) decimal(name string) string {
	raw := string(o.raw(name))
	if raw == "" || raw == "null" {
		return ""
	}
	text := strings.TrimSuffix(strings.TrimPrefix(raw, `"`), `"`)
	if !costForm.MatchString(text) {
		o.bad("/"+name, "bad_"+name, `%s is a decimal in the saga's currency, such as "0.01"`, name)
		return ""
	}
	return text
}

// failure reads a task's error: text, or {code, title, detail}.
func (o *object) failure() *saga.Failure {
	if raw := o.raw("error"); raw == nil || string(raw) == "null" {
		o.bad("/error", "missing_field", "say what went wrong: `error` is text, or {code, title, detail}")
		return nil
	}
	f := o.reported(saga.CodeTaskFailed, "the worker gave no reason")
	if f != nil && task.Taken(f.Code) {
		o.bad("/error/code", "bad_code", "%q is reserved and would leave the task in doubt: choose another code", f.Code)
	}
	return f
}

// reported reads the field error: text, or {code, title, detail}. code and title are the defaults.
// Long texts are cut instead of refused, so that a failure can always be reported.
func (o *object) reported(code, title string) *saga.Failure {
	raw := o.raw("error")
	f := &saga.Failure{Code: code}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		f.Title = cutText(text, maxDetail)
	} else {
		in := &object{}
		if err := in.parse(raw, "/error", []string{"code", "title", "detail"}); err != nil {
			o.wrong = append(o.wrong, asProblem(err).Errors...)
			return nil
		}
		if code := in.str("code"); code != "" {
			f.Code = code
		}
		f.Title, f.Detail = cutText(in.str("title"), maxTitle), cutText(in.str("detail"), maxDetail)
		o.adopt(in, "/error")
	}
	if len(f.Code) > maxCode || !codeForm.MatchString(f.Code) {
		o.bad("/error/code", "bad_code", "a code is a small letter, then up to %d small letters, digits or _", maxCode-1)
	}
	if f.Title == "" {
		f.Title, f.Detail = cmp.Or(f.Detail, title), ""
	}
	return f
}

func cutText(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// endTask records the end of a task and sends it to the saga.
func (s *server) endTask(c echo.Context, o *object, r saga.TaskResult) error {
	id, l, err := o.leased(c)
	if err != nil {
		return err
	}
	body, err := s.body(c)
	if err != nil {
		return err
	}
	m, err := s.messageOf(l.saga, saga.Command{Do: saga.EndTask{Way: l.way, Attempt: l.attempt, Result: r}, Path: l.path, Actor: callerOf(c).name})
	if err != nil {
		return err
	}
	err = s.cfg.Store.EndTask(c.Request().Context(), id, l.token, fingerprint(c, body), m)
	if errors.Is(err, journal.ErrTaskLost) {
		return leaseLost()
	}
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, map[string]string{"id": id.String(), "outcome": r.Outcome})
}
