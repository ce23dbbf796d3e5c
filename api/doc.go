// Package api is the REST interface of recourse: HTTP handlers over a store, a catalog of
// definitions and an engine. The contract is openapi.yaml in this directory. It is written by hand,
// and tests hold the handlers to it.
//
// Nothing here decides what a saga does. A handler reads the store, or sends a command to a saga as
// a message and waits until the saga's journal shows the result. So any node can serve any request,
// whichever node runs the saga.
//
// # Usage
//
// New returns an http.Handler. The engine implements Engine; tests pass small fakes.
//
//	handler := api.New(api.Config{Store: store, Catalog: catalog, Engine: engine, Log: log})
//	http.ListenAndServe("127.0.0.1:8080", handler)
//
// # The path of a request
//
// A request passes these stages, in this order. Each is a wrapper around the next.
//
//   - Intake (internal/intake, installed by cmd/recourse) limits what a server spends on callers
//     that it does not know yet: the time for sending a body, and the number of connections without
//     an accepted API key. authorize reports to it when a caller is known.
//   - observe (metrics.go) measures the request. It turns errors and panics of all later stages
//     into problems. If a response has already begun, it closes the connection instead, so that no
//     client takes an incomplete response for a whole one.
//   - guard (guard.go) sets the security headers. While no API key is required, it refuses requests
//     that a web page of another site may have sent (Host and Origin headers).
//   - authorize (auth.go) identifies the caller by the API key, applies the caller's rate limit
//     (rates.go), and checks that the caller's role allows the operation of the route.
//   - serve (routes.go) bounds the time by Limits.Request, except for routes marked stream, which
//     set their own timeouts.
//   - idempotent (idempotent.go), for routes marked keyed, replays a stored response.
//   - wholeID (saga_id.go), for routes of one saga, replaces an abbreviated id by the whole one.
//   - The handler returns nil after it has written a response with reply, or it returns an error.
//
// # Problems
//
// An error becomes an application/problem+json document (RFC 9457) in one place, asProblem in
// problem.go. The table codes in codes.go gives every code its status and title. A handler refuses
// a request with fail:
//
//	return fail("not_ready", "the database does not accept writes: see the server's log").after(1)
//
// The detail says what the client can do. Sentinel errors of the store, the catalog and the engine
// need no handling in a handler: return them, wrapped with %w, and asProblem translates them. An
// unknown error is a 500, and only respondError logs it. A saga's refusal of a command has the same
// codes as the API, so that it keeps its meaning on its way to the client.
//
// A new code needs an entry in codes, and a row in docs/errors.md. TestCodesAreDocumented,
// TestCodesAreInTheTable and TestRefusalsAreInTheTable fail otherwise. Codes are part of the
// contract and never change.
//
// # Idempotency keys
//
// A POST accepts an Idempotency-Key, except in an open session, where only the begin of an own step
// and a fork do, and at /llm and /mcp. Its scope is the name of the caller, not the API key, so a
// client that rotates its API key can still repeat a request safely. There are two mechanisms:
//
//   - The saga itself stores the key of its start (start.go, byKey), in the same commit. The key
//     lives as long as the saga. Therefore POST /v1/sagas is not marked keyed. In a batch
//     (start_batch.go) each start has its own key.
//   - For every other POST that accepts a key, idempotent reserves it in the store before the
//     handler runs, buffers the response, and stores it before the client gets it. Only successes
//     are stored: a refused request did nothing, and its key is free for the corrected request. If
//     the process dies in between, the key stays reserved for a minute. A command is a message with
//     the same id each time (messageID), so it has one effect although the first request failed.
//
// The fingerprint of method, path and body distinguishes a repetition from another request with the
// same key, which is refused with idempotency_key_reused.
//
// # Commands
//
// Handlers of commands (cancel, pause, resolve, approve and so on) build a saga.Command and call
// live.execute in commands.go. It validates the command against the journal, which only makes a
// refusal fast, sends it as a message, and waits up to Limits.Command until the journal shows that
// the saga has applied or refused it. The saga's owner decides. If no node has read the message in
// time, the response is 202, and the command stays durable. Commands about state that a person has
// seen require If-Match (ifSeq); the ETag of a saga is the seq of its journal.
//
// # Streams and waits
//
// Prefer: wait and the event stream of a journal use Engine.Watch, which reports new records of
// sagas that run on this node, and a poll of the store for all others (Limits.Poll). A claim of
// tasks waits by polling, one poll per set of types, however many workers wait (polls.go). Every
// wait ends with the request's context, at its limit, and when Config.Done is closed: a server that
// stops responds to all waiting clients.
//
// # How to add a route
//
//  1. Describe the operation in openapi.yaml: parameters, bodies, every status, and the roles in
//     x-recourse-roles.
//  2. Add a line to routes in routes.go, with the operation that its role needs, and a handler in
//     the file of its subject. Read bodies with readObject and queries with readQuery: they refuse
//     unknown and duplicate fields, and record all errors before err returns them.
//  3. Write a test with newFixture. Its method do checks each request and each response against
//     the contract.
//  4. Describe the route in docs/api.md.
//
// TestContractRoutes fails if the contract and the routes differ. TestRoles calls every operation
// with every role. TestContractCatches proves that the check against the contract can fail.
//
// # The web UI
//
// Package api/ui is a client of this API: it calls the handler that New returns, with the API key
// of its user. It has no access to the store or the engine; only compiled definitions come from the
// catalog, after the API has let the user read them. So a program can do whatever the page does,
// with the same permissions. Package api/client is a client for Go programs and imports no other
// package of this module. Tests in internal/arch check these imports.
package api
