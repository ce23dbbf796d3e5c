package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// startRequest is the body of a start.
type startRequest struct {
	definition string
	version    int // 0: the newest
	input      json.RawMessage
	budget     *saga.BudgetData
	labels     map[string]string
}

// startSaga serves POST /v1/sagas.
func (s *server) startSaga(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.Limits.Request)
	defer cancel()
	o, err := s.readObject(c, "definition", "version", "input", "budget", "labels")
	if err != nil {
		return err
	}
	body, err := s.body(c)
	if err != nil {
		return err
	}
	b := beginning{hash: fingerprint(c, body)}
	if b.key, err = idempotencyKey(c); err != nil {
		return err
	}
	// A replay comes before everything that may have changed since.
	if head, err := s.byKey(ctx, b); err != nil || head != nil {
		if err != nil {
			return err
		}
		return s.answerStart(c, head.ID, true)
	}
	req, err := readStart(o)
	if err != nil {
		return err
	}
	b.def, b.version, err = s.pick(ctx, req.definition, req.version)
	if err != nil {
		return err
	}
	if req.budget != nil && req.budget.Amount != "" && req.budget.Currency == "" {
		req.budget.Currency = b.def.Currency
	}
	b.options = saga.StartOptions{Version: b.version, Input: req.input, Vars: s.cfg.Vars, Budget: req.budget, Labels: req.labels, Actor: callerOf(c).name}
	id, replayed, err := s.begin(ctx, b)
	if err != nil {
		return err
	}
	return s.answerStart(c, id, replayed)
}

// beginning is a start that is about to be made.
type beginning struct {
	key, hash string
	def       *saga.Definition
	version   int
	options   saga.StartOptions
}

// begin starts a saga, or finds the one that was started under the same key.
func (s *server) begin(ctx context.Context, b beginning) (id uuid.UUID, replayed bool, err error) {
	data, unique, findings := saga.Begin(b.def, b.options)
	if len(findings) > 0 {
		return uuid.Nil, false, fail("invalid_start", "mend what `errors` names; nothing was started, and the Idempotency-Key is still free").with(findings...)
	}
	id, _, err = s.cfg.Engine.Start(ctx, b.def, journal.Start{
		Definition: b.def.Name, Version: b.version, SHA256: b.def.SHA256,
		Key: b.key, Hash: b.hash, Unique: unique, RetryOf: b.options.RetryOf,
	}, data)
	switch {
	case errors.Is(err, journal.ErrUnique):
		return uuid.Nil, false, fail("unique_taken", "saga %s is under way with the unique value %.100s: wait for its end, or cancel it", id, unique).of(id)
	case errors.Is(err, journal.ErrStartKey):
		head, err := s.byKey(ctx, b)
		if err != nil {
			return uuid.Nil, false, err
		}
		if head == nil {
			return uuid.Nil, false, saga.ErrUnavailable // its saga was deleted just now
		}
		return head.ID, true, nil
	}
	return id, false, err
}

// byKey finds the saga that was started under a key, nil if there is none.
func (s *server) byKey(ctx context.Context, b beginning) (*journal.Head, error) {
	if b.key == "" {
		return nil, nil
	}
	head, err := s.cfg.Store.SagaByKey(ctx, b.key)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case head.Hash != b.hash:
		return nil, keyReused().of(head.ID)
	}
	return &head, nil
}

// answerStart answers with the saga, at its end if the client would wait for that.
func (s *server) answerStart(c echo.Context, id uuid.UUID, replayed bool) error {
	wait := s.preferWait(c)
	// The wait has its own time; the reading before it has the request's.
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait+s.cfg.Limits.Request)
	defer cancel()
	l, err := s.load(ctx, id)
	if err != nil {
		return err
	}
	if wait > 0 {
		if _, err := l.await(ctx, wait, l.ended); err != nil {
			return err
		}
	}
	h := c.Response().Header()
	h.Set(echo.HeaderLocation, "/v1/sagas/"+id.String())
	status := http.StatusCreated
	if replayed {
		h.Set(replayHeader, "true")
		status = http.StatusOK
	}
	return l.answer(c, status)
}

// answer writes the saga.
func (l *live) answer(c echo.Context, status int) error {
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, status, l.m.View())
}

// pick finds the definition that a start means; version 0 is the newest.
func (s *server) pick(ctx context.Context, name string, version int) (*saga.Definition, int, error) {
	missing := func(err error) error {
		if errors.Is(err, journal.ErrNotFound) {
			p := fail("definition_not_found", "there is no definition %q: publish it with PUT /v1/definitions/%s, or check the name; GET /v1/definitions lists them", name, name)
			if version > 0 {
				p.Detail = "definition " + strconv.Quote(name) + " has no version v" + strconv.Itoa(version) + ": GET /v1/definitions/" + name + "/versions lists them"
			}
			return p
		}
		return err
	}
	newest, def, err := s.cfg.Catalog.Newest(ctx, name)
	if err != nil || version == 0 || version == newest.Version {
		if version > 0 && errors.Is(err, saga.ErrUnusable) && version != newest.Version {
			def, err = s.cfg.Catalog.Definition(ctx, name, version)
			return def, version, missing(err)
		}
		return def, newest.Version, missing(err)
	}
	def, err = s.cfg.Catalog.Definition(ctx, name, version)
	return def, version, missing(err)
}

func readStart(o *object) (startRequest, error) {
	r := startRequest{definition: o.str("definition"), version: o.version(), input: o.raw("input"), budget: o.budget(), labels: o.labels(false)}
	if r.definition == "" {
		o.bad("/definition", "missing_field", `name the definition: {"definition": "…", "input": …}`)
	}
	return r, o.err()
}

var versionForm = regexp.MustCompile(`^v?[1-9][0-9]{0,8}$`)

// parseVersion reads "v3" or "3"; 0: it is neither.
func parseVersion(text string) int {
	if !versionForm.MatchString(text) {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, "v"))
	if err != nil {
		return 0
	}
	return n
}

func (o *object) version() int {
	raw := o.fields["version"]
	if raw == nil || string(raw) == "null" {
		return 0
	}
	n := parseVersion(strings.Trim(string(raw), `"`))
	if n == 0 {
		o.bad("/version", "bad_version", `version is "v3" or 3`)
	}
	return n
}

// budget reads "2.00 USD", or {amount, currency, tokens}; nil if it is not there.
func (o *object) budget() *saga.BudgetData {
	raw := o.fields["budget"]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return o.money(text, "/budget")
	}
	in := &object{}
	if err := in.parse(raw, "/budget", []string{"amount", "currency", "tokens"}); err != nil {
		o.bad("/budget", "bad_budget", `a budget is "2.00 USD", or {"amount": "2.00 USD", "tokens": 100000}`)
		o.wrong = append(o.wrong, in.wrong...)
		return nil
	}
	amount, currency := in.str("amount"), in.str("currency")
	b := &saga.BudgetData{Amount: amount, Currency: currency}
	if strings.Contains(amount, " ") {
		if b = o.money(amount, "/budget/amount"); b == nil {
			return nil
		}
		if currency != "" && currency != b.Currency {
			o.bad("/budget/currency", "bad_budget", "the amount is in %s, the currency says %.10q: leave one out", b.Currency, currency)
		}
	} else if amount != "" {
		if _, err := retry.Amount(amount, currency); err != nil {
			o.bad("/budget/amount", "bad_budget", "%s", err.Error())
		}
	}
	in.into("tokens", &b.Tokens, "a whole number")
	if b.Tokens < 0 {
		in.bad("/tokens", "bad_budget", "tokens cannot be fewer than none")
	}
	for _, f := range in.wrong {
		f.Pointer = "/budget" + f.Pointer
		o.wrong = append(o.wrong, f)
	}
	return b
}

func (o *object) money(text, at string) *saga.BudgetData {
	m, err := retry.ParseMoney(text)
	if err != nil {
		o.bad(at, "bad_budget", "%s", err.Error())
		return nil
	}
	return &saga.BudgetData{Amount: m.Decimal(), Currency: m.Currency}
}

// Limits of labels.
const (
	maxLabels     = 64
	maxLabelValue = 256
)

var labelForm = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// labels reads a map of labels. In a patch null takes a label away, which is "" in what is returned.
func (o *object) labels(patch bool) map[string]string {
	raw := o.fields["labels"]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var fields map[string]*string
	if err := json.Unmarshal(raw, &fields); err != nil {
		o.bad("/labels", "wrong_type", "labels are an object of texts; put quotes around numbers")
		return nil
	}
	if len(fields) > maxLabels {
		o.bad("/labels", "too_many", "a saga has at most %d labels", maxLabels)
		return nil
	}
	labels := make(map[string]string, len(fields))
	for _, name := range sortedKeys(fields) {
		v := fields[name]
		at := "/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		switch {
		case !labelForm.MatchString(name):
			o.bad(at, "bad_label", "a label's name is a small letter, then up to 62 small letters, digits or any of _ . -")
		case v == nil && !patch:
			o.bad(at, "bad_label", "a label's value is text")
		case v == nil:
			labels[name] = ""
		case utf8.RuneCountInString(*v) > maxLabelValue || *v == "":
			o.bad(at, "bad_label", "a label's value is text of 1 to %d characters", maxLabelValue)
		default:
			labels[name] = *v
		}
	}
	return labels
}
