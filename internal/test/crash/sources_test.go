package crash

import (
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// sources are the definitions that clients start. Together they pass every point.
var sources = []string{`saga: books
steps:
  - {id: none, when: input.n < 0, set: 1}
  - {id: flight, http: "POST ${vars.air}/bookings", body: {route: HAM-LIS, n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", UNDO}}
  - {id: charge, http: "POST ${vars.pay}/charges", body: {amount: "${steps.flight.output.price}"}, RETRY, compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund", UNDO}}
`, `saga: fails
steps:
  - {id: flight, http: "POST ${vars.air}/bookings", body: {route: HAM-LIS, n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", UNDO}}
  - id: bed
    switch:
      - when: input.n % 2 == 0
        steps:
          - {id: hotel, http: "POST ${vars.hotels}/reservations", body: {nights: 2}, RETRY, compensate: {http: "POST ${vars.hotels}/reservations/${output.id}/cancel", UNDO}}
      - steps:
          - {id: tent, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
  - {id: charge, http: "POST ${vars.pay}/charges", body: {amount: 10}, RETRY, compensate: {http: "DELETE ${vars.pay}/charges?idempotency_key=${key}", UNDO}}
  - {id: enough, fail: no seats left after all}
`, `saga: verified
steps:
  - {id: tent, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
  - id: refund
    http: POST ${vars.pay}/refunds
    body: {order: "${input.n}", amount: 5}
    timeout: 500ms
    retry: {attempts: 12, initial: 20ms, max: 300ms}
    in_doubt: {verify: {http: "GET ${vars.pay}/refunds?idempotency_key=${key}", timeout: 500ms, found: result.body.count > 0, output: "${result.body.data[0]}", after: 500ms}, otherwise: ask}
    compensate: {http: "POST ${vars.pay}/refunds/${output.id}/cancel", UNDO}
  - {id: last, when: input.n % 3 == 0, fail: not today}
`, `saga: asked
budget: {amount: 0.05 EUR, on_exceed: ask}
steps:
  - {id: expect, http: "POST ${vars.stock}/expected-returns", body: {n: "${input.n}"}, cost: 0.03 EUR, timeout: 1s, in_doubt: ask, retry: {attempts: 12, initial: 20ms, max: 300ms}, compensate: {http: "DELETE ${vars.stock}/expected-returns/${output.id}", UNDO}}
  - {id: tent, http: "POST ${vars.things}", body: {n: "${input.n}"}, cost: 0.03 EUR, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
`, `saga: naps
steps:
  - {id: one, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
  - {id: nap, sleep: 100ms}
  - {id: two, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
  - {id: sleep, sleep: 3500ms}
  - {id: three, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
`, `saga: ships
steps:
  - {id: charge, http: "POST ${vars.pay}/charges", body: {amount: 12}, RETRY, pivot: true}
  - {id: ship, http: "POST ${vars.ship}/orders", body: {charge: "${steps.charge.output.id}"}, RETRY}
finally:
  - {id: tell, http: "POST ${vars.mail}/send", body: {to: "${saga.id}"}, timeout: 1s, in_doubt: fail, retry: {attempts: 3, initial: 20ms}}
`, `saga: slow
steps:
  - {id: flight, http: "POST ${vars.air}/bookings", body: {route: HAM-LIS, n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", UNDO}}
  - {id: nap, sleep: 250ms}
  - {id: charge, http: "POST ${vars.pay}/charges", body: {amount: 10}, RETRY, compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund", UNDO}}
  - {id: rest, sleep: 250ms}
  - {id: tent, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
`, `saga: wide
steps:
  - id: both
    parallel:
      - {id: flight, http: "POST ${vars.air}/bookings", body: {route: HAM-LIS, n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", UNDO}}
      - {id: nap, sleep: 150ms}
      - {id: hotel, http: "POST ${vars.hotels}/reservations", body: {nights: 2}, RETRY, compensate: {http: "POST ${vars.hotels}/reservations/${output.id}/cancel", UNDO}}
  - id: many
    foreach: [1, 2, "${input.n}"]
    max_parallel: 2
    steps:
      - {id: tent, http: "POST ${vars.things}", body: {n: "${item}", at: "${index}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
  - {id: last, when: input.n % 3 == 0, fail: not today}
`, `saga: family
steps:
  - {id: tent, http: "POST ${vars.things}", body: {n: "${input.n}"}, RETRY, compensate: {http: "DELETE ${vars.things}/${output.id}", UNDO}}
  - {id: trip, run: books, input: {n: "${input.n}"}, retry: {attempts: 30, initial: 20ms, max: 300ms}}
  - {id: last, when: input.n % 2 == 0, fail: not today}
`}

// text is a source as it is published, with the time that an attempt may take. A crash uses up an
// attempt, and a node that is killed at each start has a dozen of them within seconds: there are
// enough.
func text(source, timeout string) string {
	source = strings.Replace(source, "\n", "\ninput: {n: integer}\n", 1)
	return strings.NewReplacer("RETRY", "timeout: "+timeout+", in_doubt: retry, retry: {attempts: 30, initial: 20ms, max: 300ms}",
		"UNDO", "timeout: "+timeout+", retry: {initial: 20ms, max: 300ms}").Replace(source)
}

// name returns the definition's name.
func name(source string) string { return strings.Fields(source)[1] }

// definitions compiles the sources.
func definitions(t *testing.T, timeout string) map[string]*saga.Definition {
	t.Helper()
	defs := make(map[string]*saga.Definition)
	for _, src := range sources {
		def, errs := dsl.Parse(name(src), []byte(text(src, timeout)), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			t.Fatal(errs)
		}
		defs[def.Name] = def
	}
	return defs
}
