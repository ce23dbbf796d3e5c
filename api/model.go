package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
)

// modelRoutes lists the routes that take the place of the providers of language models. Their
// errors have the form of the provider's.
func (s *server) modelRoutes() []route {
	var list []route
	for _, r := range ask.Routes() {
		served := route{method: r.Method, path: basePath(r.API) + r.Path, op: opOpen, stream: true, prompt: true,
			handler: s.asProvider(r.API, func(c echo.Context) error { return s.askModel(c, r) })}
		list = append(list, served)
		// Some clients of Anthropic expect the version in the base URL that the environment gives.
		if path, ok := strings.CutPrefix(r.Path, "/v1"); ok {
			served.path = basePath(r.API) + path
			list = append(list, served)
		}
	}
	for _, api := range []llm.API{llm.OpenAIAPI, llm.AnthropicAPI} {
		elsewhere := s.asProvider(api, func(c echo.Context) error {
			return fail("not_journaled", "recourse journals %s: send other requests to the provider itself", strings.Join(journaledPaths(api), ", "))
		})
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			list = append(list, route{method: method, path: basePath(api) + "/*", op: opOpen, handler: elsewhere})
		}
	}
	return list
}

func journaledPaths(api llm.API) (paths []string) {
	for _, r := range ask.Routes() {
		if r.API == api {
			paths = append(paths, r.Path[1:])
		}
	}
	return paths
}

// basePath is the path of an API's base URL, to which client packages add the rest.
func basePath(api llm.API) string {
	if api == llm.AnthropicAPI {
		return "/llm/anthropic"
	}
	return "/llm/openai/v1"
}

// baseURLs are the base URLs for an agent's clients.
type baseURLs struct {
	OpenAI    string `json:"openai"`
	Anthropic string `json:"anthropic"`
}

// origin returns the scheme and the host of the server, as the client has addressed it.
func origin(c echo.Context) string { return c.Scheme() + "://" + c.Request().Host }

func baseURLsOf(c echo.Context) baseURLs {
	at := origin(c)
	return baseURLs{at + basePath(llm.OpenAIAPI), at + basePath(llm.AnthropicAPI)}
}

// asProvider responds with errors in the form of a provider. The header x-should-retry says whether
// the client packages of the providers send the request again.
func (s *server) asProvider(api llm.API, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := h(c)
		if err == nil || c.Response().Committed || c.Request().Context().Err() != nil {
			return err
		}
		p := asProblem(err)
		if p.Status != http.StatusBadGateway { // that is the provider's failure, and in the journal
			s.logFailure(c, p.Status, err)
		}
		name := strings.TrimPrefix(p.Type, problemType)
		if p.Status == http.StatusConflict {
			p.Status, name = http.StatusForbidden, "not_running"
		}
		again := p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusBadGateway
		c.Response().Header().Set("X-Should-Retry", strconv.FormatBool(again))
		p.headers(c.Response().Header())
		return reply(c, p.Status, providerError(api, p.Status, name, p.Error()))
	}
}

// providerError returns an error as the provider writes it, with the code as an addition to
// Anthropic's.
func providerError(api llm.API, status int, name, message string) any {
	kind := "invalid_request_error"
	switch status {
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusForbidden:
		kind = "permission_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusPaymentRequired:
		kind = "billing_error"
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusInternalServerError:
		kind = "api_error"
	}
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	if api == llm.AnthropicAPI {
		return struct {
			Type  string `json:"type"`
			Error inner  `json:"error"`
		}{"error", inner{kind, message, name}}
	}
	return struct {
		Error inner `json:"error"`
	}{inner{kind, message, name}}
}

// modelLife reads the body of a request to a provider, and returns the life whose token it has as
// its API key.
func (s *server) modelLife(c echo.Context) (*life, error) {
	key := bearer(c)
	if key == "" {
		key = c.Request().Header.Get("X-Api-Key")
	}
	id, hash, ok, err := parseToken(key)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, s.refuseKey(c.(*call))
	}
	if c.Request().Method != http.MethodGet { // a client may take long to send its prompt
		if _, err := s.body(c); err != nil {
			return nil, err
		}
	}
	l, err := s.session(c, id)
	if err != nil {
		return nil, err
	}
	return l.life(c.Request().Context(), hash)
}

// askModel serves a request to a model: with the recorded answer to the same request of an earlier
// life, or with that of the provider.
func (s *server) askModel(c echo.Context, r ask.Route) error {
	began, result := time.Now(), askRefused
	defer func() { s.metrics.asks.WithLabelValues(result).Inc() }()
	l, err := s.modelLife(c)
	if err != nil {
		return err
	}
	if l.m.Closed() {
		return fail("not_running", "the session is committed, is being undone, or has ended: open another one").of(l.id)
	}
	var body []byte
	if r.Method != http.MethodGet {
		if body, err = s.body(c); err != nil {
			return err
		}
	}
	rules := l.rules()
	p, err := ask.Parse(r, body, c.Request().Header.Get("X-Recourse-Lane"), forwardedHeaders(c), rules)
	if err != nil {
		return refusedPrompt(err).of(l.id)
	}
	if err := l.mayAsk(p); err != nil {
		return err
	}
	if err := l.admit(); err != nil {
		return err
	}
	retries, _ := strconv.Atoi(c.Request().Header.Get("X-Stainless-Retry-Count")) // anything else is a first request
	a, err := l.recorded(c.Request().Context(), p, retries > 0)
	if err != nil {
		return err
	}
	replayed := true
	if a == nil {
		a = l.failedBefore(p)
	}
	if a == nil {
		defer s.cfg.Relay.Offer(p.Body, body)()
		if a, err = l.newAsk(c, p, body, rules); err != nil {
			return err
		}
		replayed = false
	}
	if replayed && s.cfg.Replay != nil {
		s.cfg.Replay.Found(a.Path, a.Ended)
	}
	l.use(a, ask.Served)
	delivered := false
	defer func() {
		if !delivered { // also if the response was broken off
			l.use(a, ask.Left)
		}
	}()
	ended := a.Ended
	result = askLeft
	err = l.passAnswer(c, a, s.replayed(replayed && ended), func(found *ask.Recorded) {
		added := time.Since(began)
		switch {
		case found.Output == nil:
			result = askFailed
			return
		case !replayed:
			result = askFresh
			added -= found.Took
		default:
			result = askReplayed
		}
		if !replayed || ended { // otherwise the request was sent before this one began
			s.metrics.askOverhead.Observe(added.Seconds())
		}
	})
	if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusPaymentRequired {
		result = askRefused
	}
	delivered = err == nil
	return err
}

// rules returns the rules of the session's policy.
func (l *live) rules() ask.Rules {
	p := l.def.Session
	return ask.Rules{Ignore: p.Ignore, Hold: p.Data.StreamHold == saga.HoldAll}
}

// forwardedHeaders returns the headers that the provider gets, too; nil for none.
func forwardedHeaders(c echo.Context) (list map[string]string) {
	for _, name := range ask.Forwarded() {
		if value := c.Request().Header.Get(name); value != "" && !hasControl(value) {
			if list == nil {
				list = make(map[string]string)
			}
			list[name] = value
		}
	}
	return list
}

// refusedPrompt returns the problem of a request that cannot be asked.
func refusedPrompt(err error) *problem {
	name := code("bad_input")
	switch {
	case errors.Is(err, ask.ErrBackground):
		name = "background"
	case errors.Is(err, ask.ErrForeignTool):
		name = "foreign_tool"
	case errors.Is(err, ask.ErrConversation), errors.Is(err, ask.ErrTemplate), errors.Is(err, ask.ErrForeign):
		name = "foreign_state"
	}
	return fail(name, "%s", err)
}

// mayAsk returns a problem if the session's policy does not allow the request. It adds to the
// request's input what the provider adds to it.
func (l *life) mayAsk(p *ask.Prompt) error {
	policy := l.def.Session
	if models := policy.Data.Models; len(models) > 0 && p.Model != "" && !journal.MatchesAny(models, p.Model) {
		return fail("model_not_allowed", "the session may ask %s, not %.100q", strings.Join(models, ", "), p.Model).of(l.id)
	}
	switch counted, err := p.Continue(l.models); {
	case err != nil:
		return refusedPrompt(err).of(l.id)
	case !counted && l.reserves():
		return fail("foreign_state", "the session has a budget, and the provider did not say how many tokens a response has that the request continues, or names items of: send the conversation instead").of(l.id)
	}
	if body, ok := policy.Ask.Body.(*ask.Body); ok && !body.Limited(&p.Question) && l.reserves() {
		return fail("max_tokens_missing", "the session has a budget, and the cost of the response has no limit: set its most tokens (max_tokens, max_completion_tokens or max_output_tokens), or max_output in the server's prices").of(l.id)
	}
	return nil
}

// reserves reports whether the most that a request may cost has to be known before it is sent.
func (l *live) reserves() bool {
	cost := l.m.Cost()
	return l.s.cfg.Replay == nil && (cost.Budget != "" || cost.Tokens.Budget > 0)
}

// recorded returns the recorded request whose answer p gets; nil: there is none. Errors: those of
// the store.
func (l *life) recorded(ctx context.Context, p *ask.Prompt, again bool) (*ask.Recorded, error) {
	return l.kept(ctx, func(r *lifeRequests) *ask.Recorded {
		return l.models.Answers(p.Identity, r.asks, r.recording[p.Identity] > 0, again)
	})
}

// kept returns the recorded request that find finds. One of a fork's original whose content was
// erased, or deleted with it, no longer counts: find is called again. Errors: those of the store.
func (l *life) kept(ctx context.Context, find func(*lifeRequests) *ask.Recorded) (found *ask.Recorded, err error) {
	for {
		l.s.asked.with(l.id, l.number, func(r *lifeRequests) { found = find(r) })
		if found == nil || !found.Inherited || l.s.cfg.Replay != nil {
			return found, nil
		}
		if _, err := l.content(ctx, found.Output.Answer); !errors.Is(err, ask.ErrErased) {
			return found, err
		}
		found.Erased = true
	}
}

// failedBefore returns the recorded request without an answer whose failure p gets when it is
// replayed; nil: there is none.
func (l *life) failedBefore(p *ask.Prompt) (found *ask.Recorded) {
	if l.s.cfg.Replay != nil {
		l.s.asked.with(l.id, l.number, func(r *lifeRequests) { found = l.models.Fails(p.Identity, r.asks) })
	}
	return found
}

// use remembers what has become of a recorded request in this life.
func (l *life) use(a *ask.Recorded, use ask.Use) {
	l.s.asked.with(l.id, l.number, func(r *lifeRequests) { r.asks[a.Path] = use })
}

// recording notes that a request is being recorded, until done is called. Requests of the same life
// may read its record before the request itself does.
func (l *life) recording(identity string) (done func()) {
	count := func(n int) {
		l.s.asked.with(l.id, l.number, func(r *lifeRequests) {
			if r.recording[identity] += n; r.recording[identity] <= 0 {
				delete(r.recording, identity)
			}
		})
	}
	count(1)
	return func() { count(-1) }
}

// newAsk records a request, which is then sent. Errors: budget_exhausted, limit, diverged,
// superseded.
func (l *life) newAsk(c echo.Context, p *ask.Prompt, body []byte, rules ask.Rules) (*ask.Recorded, error) {
	if r := l.s.cfg.Replay; r != nil {
		return nil, r.Missing(saga.Command{Do: saga.AskModel{Life: l.number, Identity: p.Identity, Input: saga.Encode(p.Question)}}, p, nil)
	}
	diverged, err := l.divergence(c.Request().Context(), p, rules)
	if err != nil {
		return nil, err
	}
	cmd := saga.AskModel{Life: l.number, Identity: p.Identity, Diverged: diverged}
	if l.def.Session.Data.Keep == saga.KeepAnswers {
		cmd.Body = body
	} else {
		cmd.Blobs = p.Keep(l.models)
	}
	cmd.Input = saga.Encode(p.Question)
	defer l.recording(p.Identity)()
	at, err := l.ask(c, saga.Command{Do: cmd})
	if err != nil {
		return nil, err
	}
	return l.models.At(at), nil
}

// divergence returns how a new request differs from one of an earlier life at the same place; nil:
// it does not. Error: diverged, if the session's policy is to stop then.
func (l *life) divergence(ctx context.Context, p *ask.Prompt, rules ask.Rules) (*saga.Divergence, error) {
	from, err := l.kept(ctx, func(r *lifeRequests) *ask.Recorded { return l.models.Diverges(p, l.number, r.asks) })
	if from == nil || err != nil {
		return nil, err
	}
	d, err := from.Divergence(p, rules, func(hash string) ([]byte, error) { return l.content(ctx, hash) })
	if err != nil {
		return nil, err
	}
	if l.def.Session.Data.OnDivergence == saga.DivergenceStop {
		return nil, fail("diverged", "this request differs from %s of an earlier process of the agent at %q, and the session's policy is to stop then: make the request the same, or list what may differ in `ignore`", d.From, d.Pointer).of(l.id)
	}
	return d, nil
}

// mostAsk is the longest time that an agent waits for an answer.
const mostAsk = time.Hour

// passAnswer responds with the answer to a recorded request: with the parts that may leave while it
// arrives, and with the rest when it is in the journal. It calls ready with what is in the journal,
// before it sends the rest.
func (l *life) passAnswer(c echo.Context, a *ask.Recorded, replayed bool, ready func(*ask.Recorded)) error {
	ctx := c.Request().Context()
	h := c.Response().Header()
	h.Set("X-Recourse-Step", a.Path)
	if replayed {
		h.Set("X-Recourse-Replayed", "true")
	}
	found, sent := *a, 0
	if !found.Ended {
		var err error
		if found, sent, err = l.passOn(c, a); err != nil {
			return err
		}
	}
	c.(*call).letGo()
	ready(&found)
	if found.Output == nil {
		if sent > 0 {
			panic(http.ErrAbortHandler) // the client sees a broken response, as from the provider
		}
		return l.passFailure(c, &found)
	}
	content, err := l.content(ctx, found.Output.Answer)
	if errors.Is(err, ask.ErrErased) {
		return fail("not_running", "the content of this answer was erased").of(l.id)
	} else if err != nil {
		return err
	}
	if sent == 0 {
		h.Set(echo.HeaderContentType, found.Output.Type)
		c.Response().WriteHeader(http.StatusOK)
	}
	_, err = c.Response().Write(content[min(sent, len(content)):])
	return err
}

// passOn passes on the parts of a response that may leave, until the journal has its end. It
// returns the request as it is then, and how many bytes the agent has. It ends the request's use of
// the session.
func (l *life) passOn(c echo.Context, a *ask.Recorded) (found ask.Recorded, sent int, err error) {
	ctx, stop := context.WithCancel(c.Request().Context())
	key := idempotency.Key(l.id, a.Path, journal.Do, 0)
	stream := l.s.cfg.Relay.Join(key)
	defer l.s.cfg.Relay.Leave(key, stream)
	passed := make(chan error)
	go func() {
		var failed error
		defer func() { passed <- failed }()
		for {
			part, kind, ok := stream.Next(ctx, sent)
			if !ok || failed != nil {
				return
			}
			if sent == 0 {
				c.Response().Header().Set(echo.HeaderContentType, kind)
				c.Response().WriteHeader(http.StatusOK)
			}
			if _, failed = c.Response().Write(part); failed != nil {
				return
			}
			c.Response().Flush()
			sent += len(part)
		}
	}()
	waits := false // for a higher budget
	done, err := l.awaitShared(c, mostAsk, func() bool {
		waits = !a.Ended && l.m.WaitsForRaise(a.Path)
		return a.Ended || waits || l.ended()
	})
	found = *a
	c.(*call).letGo()
	stop()
	if failed := <-passed; err == nil {
		err = failed
	}
	if err == nil && waits {
		err = fail("budget_exhausted", "the budget of the session does not cover the request, and a person is asked to raise it (GET /v1/inbox?saga=%s). It is sent then, and the same request gets its answer", l.id).of(l.id)
	}
	if err == nil && !done {
		err = fail("unavailable", "the server stops, or the response takes too long: send the same request again").of(l.id).after(1)
	}
	if err != nil && sent > 0 {
		panic(http.ErrAbortHandler)
	}
	return found, sent, err
}

// passFailure responds with the error of a request that has no answer: that of the provider, as it
// came.
func (l *life) passFailure(c echo.Context, a *ask.Recorded) error {
	var result struct {
		Headers map[string]string
		Body    json.RawMessage
	}
	d := a.Failure
	if d == nil || d.Error == nil {
		return fail("not_running", "the request was not sent: the session is being undone, or has ended").of(l.id)
	}
	if d.Error.Code == "budget_exhausted" {
		return fail("budget_exhausted", "%s", d.Error.Error()).of(l.id)
	}
	if d.StatusCode < 400 || json.Unmarshal(d.Result, &result) != nil {
		return fail("provider_failed", "%s: the client may send the request again", d.Error.Error()).of(l.id)
	}
	h := c.Response().Header()
	for _, name := range []string{"retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id"} {
		if value := result.Headers[name]; value != "" {
			h.Set(name, value)
		}
	}
	if h.Get("X-Should-Retry") == "" {
		h.Set("X-Should-Retry", strconv.FormatBool(d.StatusCode >= 500 || d.StatusCode == http.StatusTooManyRequests || d.StatusCode == http.StatusRequestTimeout || d.StatusCode == http.StatusConflict))
	}
	kind, body := echo.MIMEApplicationJSON, []byte(result.Body)
	var text string
	if json.Unmarshal(result.Body, &text) == nil {
		kind, body = result.Headers["content-type"], []byte(text)
	}
	return c.Blob(d.StatusCode, kind, body)
}

// storeContents stores the contents of a command that is sent as a message.
func (l *live) storeContents(ctx context.Context, id uuid.UUID, cmd saga.Command) error {
	o, ok := cmd.Do.(saga.AskModel)
	if !ok || len(o.Blobs) == 0 {
		return nil
	}
	err := l.s.cfg.Store.PutBlobs(ctx, id, o.Blobs)
	if errors.Is(err, journal.ErrEnded) {
		return fail("not_running", "the session has ended: open another one").of(id)
	}
	if err != nil {
		return fmt.Errorf("contents of a request: %w", err)
	}
	return nil
}

// eraseContent serves DELETE /v1/sessions/{id}/content.
func (s *server) eraseContent(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	if _, err := s.session(c, id); err != nil {
		return err
	}
	if _, err := s.cfg.Store.EraseBlobs(c.Request().Context(), id); err != nil {
		return sagaError(id, err)
	}
	return c.NoContent(http.StatusNoContent)
}
