// Package world is a small world to run sagas against: flights, hotels, cards, stock, parcels and
// mail as one HTTP service that really changes when it is called, remembers everything it was
// asked, and can be told to misbehave. The demo, the README, the tests and the crash tests of
// recourse use it.
//
// # Services
//
// Each has a base path; a definition's vars point at it (vars.air = http://host/air).
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
//	/mail      POST /send {to, …} → 202 {id}; can not be undone and ignores keys
//	/orders    GET /orders/{id}/returnable?sku= → {order, sku, returnable}; false for ids that start with "final-"
//	/search    GET /v1/search?q= → {query, urls}; the first url is the same for every query
//	/cms       POST /pages {title, …} → 201 {id, url, …}; DELETE /pages/{id} undoes
//	/things    POST /things (any JSON) → 201 {id, echo}; PUT /things/{name}; GET and DELETE (undoes) /things/{id}. They
//	           answer at /things/things like the other services' paths, and shorter at /things
//
// A service also answers without its base path under a host of its name, such as pay.example: POST https://pay.example/charges.
//
// Every collection also answers GET /…/{id}. A resource shows the fields it was made with, numbers
// as the same literals (9007199254740993, 19.10), and a status that tells whether it was undone; an
// undone thing is gone (404). Undoing what is undone, or never was, is 404: a definite refusal. A
// refusal is application/problem+json.
//
// # Keys
//
// A write takes an Idempotency-Key header (a hotel also the body field client_token). The key is
// stored in the same instant as the effect: the same request again gets the stored answer with
// Idempotency-Replayed: true, whether or not the first answer arrived; another body, method or path
// under the key gets 422; while the first is being worked on, 409 with Retry-After: 1. Only a
// success uses a key up. Keys belong to one service. Without a key each request is a new effect.
// Config.KeyWindow makes the world forget keys, as real services do.
//
// # Ledger
//
// World.Ledger and GET /_ledger list, in order, each request as it arrived (before any effect) and
// each effect and undo. World.Balance and GET /_balance sum them up: net is 0 when everything that
// was done is undone. World.Await and GET /_ledger?after=N&wait=10s wait for something to happen,
// so that no test has to sleep.
//
// # Faults
//
// A Rule says which requests it matches, how many it lets pass and how many it spoils, and what it
// does to them. "Before" faults leave no effect, "after" faults spoil the answer of an effect that
// happened. Rules count; nothing is random. Of the rules that match, in the order they were added,
// the first that still has something to do takes the request; those before it have counted it,
// those after it have not seen it.
//
// Control paths (/_ledger, /_balance, /_faults, /_auth, /_reset) answer loopback clients only;
// Control is their client. /_healthz answers anyone.
package world
