package api

import (
	"testing"

	"recourse/saga"
)

const chargeDef = `saga: order
input: {amount: decimal, note: string?}
steps:
  - id: charge
    http: POST ${vars.pay}/charges
    body: {amount: "${input.amount}"}
    compensate:
      http: POST ${vars.pay}/charges/${output.id}/refund
  - id: ship
    http: POST ${vars.ship}/orders
    body: {charge: "${steps.charge.output.id}", note: "${input.note ?? ''}"}
    compensate:
      http: POST ${vars.ship}/orders/${output.id}/cancel
output: {charge: "${steps.charge.output.id}"}
`

func TestStart(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(chargeDef)
		a := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 19.10}, "labels": {"tier": "gold"}}`, header{"Prefer", "wait=20"}).want(201)
		v := a.saga()
		if v.Status != saga.Succeeded || v.Version != "v1" || string(v.Input) != `{"amount":19.10}` && string(v.Input) != `{"amount":19.10,"note":null}` {
			t.Errorf("saga %s", a.Body)
		}
		if got, want := a.Header.Get("Location"), "/v1/sagas/"+v.ID; got != want {
			t.Errorf("Location %q, want %q", got, want)
		}
		if got := a.Header.Get("Preference-Applied"); got != "wait=20" {
			t.Errorf("Preference-Applied %q", got)
		}
		if got := x.do("GET", "/v1/sagas/"+v.ID, "").want(200); string(got.Body) != string(a.Body) {
			t.Errorf("read again it is\n%s, not\n%s", got.Body, a.Body)
		}
	})
}
