package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/journal"
)

// route is one operation. Its path is echo's: `:name` for a parameter, `\:` for a colon.
type route struct {
	method, path string
	op           operation
	orKey        operation // for opLife: what an API key needs instead of a session token; "": only tokens are accepted
	handler      echo.HandlerFunc
	keyed        bool // accepts an Idempotency-Key
	stream       bool // sets its own timeouts
	document     bool // allows the larger body, Limits.Document
	batch        bool // allows a batch of starts, Limits.Batch
	prompt       bool // allows a request to a model, ask.MaxContent
}

// ofSaga is the prefix of the routes of one saga.
const ofSaga = "/v1/sagas/:id"

// routes lists every route.
func (s *server) routes() []route {
	const saga = ofSaga
	post := func(path string, op operation, h echo.HandlerFunc) route {
		return route{method: http.MethodPost, path: path, op: op, handler: h, keyed: true}
	}
	get := func(path string, op operation, h echo.HandlerFunc) route {
		return route{method: http.MethodGet, path: path, op: op, handler: h}
	}
	document := func(r route) route {
		r.document = true
		return r
	}
	published := func(d *documents) []route {
		path := "/v1/" + d.path
		return []route{
			document(route{method: http.MethodPut, path: path + "/:name", op: opPublish, handler: d.put}),
			{method: http.MethodDelete, path: path + "/:name", op: opPublish, handler: d.archive},
			get(path, opRead, d.list),
			get(path+"/:name", opRead, d.newest),
			get(path+"/:name/versions", opRead, d.versions),
			get(path+"/:name/versions/:version", opRead, d.version),
		}
	}
	return slices.Concat(published(s.definitions()), published(s.actions()), s.sessionRoutes(), s.modelRoutes(), s.mcpRoutes(), s.oauthRoutes(), []route{
		get("/", opOpen, s.index),
		get("/healthz", opOpen, s.healthz),
		get("/readyz", opOpen, s.readyz),
		get("/openapi.json", opOpen, s.openapi),
		get("/v1/schemas/saga.json", opOpen, s.sagaSchema),
		get(metricsPath, opRead, s.scrape),

		document(post("/v1/validate", opRead, s.validate)),
		document(post("/v1/plan", opStart, s.plan)),
		document(post("/v1/definitions/:name/replay", opOperate, s.replayDefinition)),

		// Not keyed: the saga itself stores the key of its start.
		{method: http.MethodPost, path: "/v1/actions/:name/run", op: opStart, handler: s.runAction, stream: true},
		{method: http.MethodPost, path: startPath, op: opStart, handler: s.startSaga, stream: true},
		{method: http.MethodPost, path: startPath + `\:batch`, op: opStart, handler: s.startBatch, stream: true, batch: true},
		get("/v1/sagas", opRead, s.listSagas),
		{method: http.MethodGet, path: saga, op: opRead, handler: s.getSaga, stream: true},
		{method: http.MethodPatch, path: saga, op: opOperate, handler: s.patchSaga, keyed: true},
		{method: http.MethodDelete, path: saga, op: opOperate, handler: s.deleteSaga},
		{method: http.MethodGet, path: saga + "/journal", op: opRead, handler: s.getJournal, stream: true},
		get(saga+"/steps", opRead, s.listSteps),
		get(saga+"/steps/:path", opRead, s.getStep),
		post(saga+"/cancel", opCancel, s.cancel),
		post(saga+"/pause", opOperate, s.pause),
		post(saga+"/resume", opOperate, s.resume),
		post(saga+"/retry", opOperate, s.retry),
		get(saga+"/retry", opRead, s.showRetry),
		{method: http.MethodPost, path: saga + "/compensate", op: opOperate, handler: s.compensate, keyed: true, stream: true},
		get(saga+"/undo", opRead, s.showUndo),
		// Not keyed: the saga itself stores the key of its start.
		{method: http.MethodPost, path: saga + "/fork", op: opStart, handler: s.fork, stream: true, document: true},
		{method: http.MethodPost, path: ofSession + "/fork", op: opStart, handler: s.fork, stream: true, document: true},
		get(saga+"/compare/:other", opRead, s.compare),
		get(ofSession+"/compare/:other", opRead, s.compare),
		post(saga+"/steps/:path/resolve", opOperate, s.resolve),
		post(saga+"/steps/:path/approve", opDecide, s.approve),
		post(saga+"/steps/:path/reject", opDecide, s.reject),
		post(saga+"/signals/:name", opSignal, s.signal),

		{method: http.MethodPost, path: "/v1/tasks/claim", op: opWork, handler: s.claimTasks, keyed: true, stream: true},
		post("/v1/tasks/:id/heartbeat", opWork, s.heartbeat),
		document(post("/v1/tasks/:id/complete", opWork, s.completeTask)),
		post("/v1/tasks/:id/fail", opWork, s.failTask),

		post("/v1/events", opEvents, s.postEvents),

		get("/v1/inbox", opRead, s.inbox),
		get("/v1/stalled", opRead, s.listStalled),
		get("/v1/stats", opRead, s.stats),
		get("/v1/costs", opRead, s.costs),
		get("/v1/system", opRead, s.system),
		get("/v1/whoami", opKnown, s.whoami),
	})
}

// call is the context of a request: its route, its caller and its body.
type call struct {
	echo.Context
	route *route
	who   caller
	body  []byte // valid if read
	read  bool
	// key and mark are the Idempotency-Key, with the caller's scope, and the fingerprint of a
	// request whose key is reserved; "": it has none.
	key, mark string
	// release ends the use of a session that the request has; nil: it has none.
	release func()
	// feed is that of the session, which was read after the feed began.
	feed *journal.Feed
}

// letGo ends the use of the session before the response is written: a client may read it slowly,
// and send other requests of the session meanwhile.
func (k *call) letGo() {
	if k.release != nil {
		k.release()
		k.release = nil
	}
}

// serve wraps a route's handler: it authorizes the caller, sets the timeout, expands a short saga
// id, and replays the response to a known idempotency key.
func (s *server) serve(r route) echo.HandlerFunc {
	h := r.handler
	if strings.HasPrefix(r.path, ofSaga) || strings.HasPrefix(r.path, ofSession) {
		if s.cfg.Archive != nil && !readsArchive(&r) {
			h = s.refuseArchived(h)
		}
		h = s.wholeID(h)
	}
	if r.keyed {
		h = s.idempotent(h)
	}
	name := strings.ReplaceAll(r.path, `\:`, ":")
	return func(c echo.Context) error {
		c.SetPath(name) // for metrics and logs
		k := &call{Context: c, route: &r}
		defer k.letGo()
		if err := s.authorize(k); err != nil {
			return err
		}
		if r.stream {
			return h(k)
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.Limits.Request)
		defer cancel()
		own := c.Request()
		defer c.SetRequest(own) // respondError checks whether the client has disconnected, not the timeout
		c.SetRequest(own.WithContext(ctx))
		return h(k)
	}
}
