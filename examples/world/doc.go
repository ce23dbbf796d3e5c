// Package world mocks the remote services of sagas: flights, hotels, cards, stock, parcels and mail
// as one HTTP service. It has real state, records every request in a ledger, and can inject faults.
// The demo, the README, the tests and the crash tests of recourse use it.
//
// # Services
//
// Each service has a base path, to which a definition's vars point (vars.air = http://host/air).
//
//	/air       POST /bookings {route, date, passenger, price?} → 201 {id, price, …}; GET /bookings/{id};
//	           GET /bookings?client_ref=KEY → {count, items}; DELETE /bookings/{id} undoes
//	/hotels    POST /reservations {city, nights, total?} → 201 {id, total, …}; POST /reservations/{id}/cancel undoes
//	/pay       POST /charges {amount, …} → 201 {id, amount, …}; POST /charges/{id}/refund undoes;
//	           DELETE /charges?idempotency_key=KEY undoes by key: 200 whether there was a charge or not, and 410 for every
//	           later charge under that key; POST /refunds {order, amount}; POST /refunds/{id}/cancel undoes;
//	           GET /charges?idempotency_key=KEY and GET /refunds?idempotency_key=KEY → {count, data}
//	/stock     POST /expected-returns → 201 {id, …}; DELETE /expected-returns/{id} undoes
//	/shipping  POST /labels → 201 {id, url, …}; POST /labels/{id}/void undoes
//	/ship      POST /orders → 201 {id, …}; POST /orders/{id}/cancel undoes
//	/mail      POST /send {to, …} → 202 {id}; cannot be undone, and ignores keys
//	/orders    GET /orders/{id}/returnable?sku= → {order, sku, returnable}; false for ids that start with "final-"
//	/search    GET /v1/search?q= → {query, urls}; the first url is the same for every query
//	/cms       POST /pages {title, …} → 201 {id, url, …}; DELETE /pages/{id} undoes
//	/things    POST /things (any JSON) → 201 {id, echo}; PUT /things/{name}; GET and DELETE (undoes) /things/{id}. They
//	           exist at /things/things like the other services' paths, and at /things
//
// A service is also served without its base path at a host with its name, such as pay.example:
// POST https://pay.example/charges.
//
// Every collection also serves GET /…/{id}. A resource shows the fields of its creation, numbers as
// the same literals (9007199254740993, 19.10), and a status that says whether it was undone; an
// undone thing is 404. Undoing a resource that was undone, or never existed, is 404: a definite
// refusal. A refusal is application/problem+json.
//
// # Keys
//
// A write takes an Idempotency-Key header (a hotel also the body field client_token). The key is
// stored together with the effect: the same request again gets the stored response with
// Idempotency-Replayed: true, whether or not the first response arrived; another body, method or
// path with the key gets 422; while the first request is in flight, the response is 409 with
// Retry-After: 1. Only a success uses a key. Keys belong to one service. Without a key each request
// is a new effect. Config.KeyWindow makes the world delete keys, as real services do.
//
// # Ledger
//
// World.Ledger and GET /_ledger list, in order, each request as it arrived (before any effect) and
// each effect and undo. World.Balance and GET /_balance sum them: net is 0 if every effect is
// undone. World.Await and GET /_ledger?after=N&wait=10s wait for an event, so that no test has to
// sleep.
//
// # Faults
//
// A Rule says which requests it matches, how many pass and how many get the fault, and which fault.
// "Before" faults leave no effect, "after" faults change the response to an effect that happened.
// Rules count requests; nothing is random. Of the matching rules, in the order of their addition,
// the first that has not injected all its faults handles the request. Rules before it have counted
// the request, rules after it have not.
//
// Control paths (/_ledger, /_balance, /_faults, /_auth, /_reset) accept only loopback clients;
// Control is their client. /_healthz accepts everyone.
package world
