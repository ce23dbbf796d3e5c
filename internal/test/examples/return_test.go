package examples

import (
	"net/http"
	"strings"

	"recourse/api/client"
	"recourse/examples/world"
)

func returning(amount int) map[string]any {
	return map[string]any{"order_id": "o-1", "sku": "s-1", "reason": "too small", "amount": amount, "email": "ada@example.com"}
}

var returned = map[string]int{"stock expect": 1, "shipping label": 1, "pay refund": 1, "mail send": 1}

var returns = []play{
	{name: "plain", example: "return", guarded: true, input: returning(1999), status: "succeeded", effect: returned, events: []string{"com.shop.return.succeeded"},
		check: func(s *scene, v *client.Saga, _ *fetcher) {
			if got := s.output(v, "email", "data"); !strings.Contains(got, `"label":"https://carrier.example/labels/o-1.pdf","refund":"re_`) {
				s.t.Errorf("mailed %s", got)
			}
		}},
	{name: "approved", example: "return", guarded: true, input: returning(50001), status: "succeeded", effect: returned, events: []string{"com.shop.return.succeeded"},
		people: func(s *scene, _ string) {
			e := s.asked("approval")
			if string(e.Shown) != `{"reason":"too small","email":"ada@example.com"}` {
				s.t.Errorf("shown: %s", e.Shown)
			}
			if status, _, b := s.call("POST", "/v1/sagas", `{"definition":"order-return","input":{"order_id":"o-1","sku":"s","reason":"r","amount":1,"email":"a@b.example"}}`); status != http.StatusConflict {
				s.t.Errorf("a second return of the order is answered %d %s", status, b)
			}
			s.decide(e, "approve")
		}},
	{name: "rejected", example: "return", guarded: true, input: returning(50001), status: "compensated", reason: "rejected big_refund rejected", events: []string{"com.shop.return.compensated"},
		people: func(s *scene, _ string) { s.decide(s.asked("approval"), "reject") },
		check:  func(s *scene, _ *client.Saga, _ *fetcher) { s.ops("stock expect, stock forget") }},
	{name: "nobody decides", example: "return", guarded: true, input: returning(50001), edit: []string{"timeout: 48h", "timeout: 2s"},
		status: "compensated", reason: "rejected big_refund rejected", events: []string{"com.shop.return.compensated"},
		check: func(s *scene, _ *client.Saga, _ *fetcher) { s.ops("stock expect, stock forget") }},
	{name: "it takes long, and the order is read again", example: "return", guarded: true, input: returning(50001), edit: []string{"fresh_for: 1h", "fresh_for: 1s", "timeout: 48h", "timeout: 2s", "on_timeout: reject", "on_timeout: approve"},
		status: "succeeded", effect: returned, events: []string{"com.shop.return.succeeded"},
		check: func(s *scene, v *client.Saga, _ *fetcher) {
			var journal struct{ Data []struct{ Kind, Path string } }
			s.get("/v1/sagas/"+v.ID+"/journal?limit=1000", &journal)
			read := 0
			for _, r := range journal.Data {
				if r.Kind == "intent" && r.Path == "validate" {
					read++
				}
			}
			if read < 2 {
				s.t.Errorf("the order was read %d times", read)
			}
		}},
	{name: "it is no longer returnable when it is read again", example: "return", guarded: true, input: returning(50001), edit: []string{"fresh_for: 1h", "fresh_for: 1s", "timeout: 48h", "timeout: 2s", "on_timeout: reject", "on_timeout: approve"},
		faults: []world.Rule{{Match: world.Match{PathPrefix: "/orders"}, Skip: 1, Do: world.Do{Before: world.FaultStatus, Status: 410}}},
		status: "compensated", reason: "step_failed validate http_410", events: []string{"com.shop.return.compensated"},
		check: func(s *scene, _ *client.Saga, _ *fetcher) { s.ops("stock expect, stock forget") }},
	{name: "not returnable", example: "return", guarded: true, input: map[string]any{"order_id": "final-1", "sku": "s-1", "reason": "r", "amount": 1, "email": "ada@example.com"},
		status: "compensated", reason: "step_failed validate not_returnable", events: []string{"com.shop.return.compensated"}},
	{name: "the refund's answer is lost", example: "return", guarded: true, input: returning(1999), faults: []world.Rule{onPath("/pay/refunds", 1, world.Do{After: world.FaultDrop})},
		status: "succeeded", effect: returned, events: []string{"com.shop.return.succeeded"}, check: once("pay", "refund")},
	{name: "the refund is refused", example: "return", guarded: true, input: returning(1999),
		faults: []world.Rule{
			onPath("/pay/refunds", 0, status(422)),
			onPath("/shipping/labels/", 2, status(503)),
		},
		status: "compensated", reason: "step_failed refund http_422", events: []string{"com.shop.return.compensated"},
		check: func(s *scene, _ *client.Saga, _ *fetcher) {
			s.ops("stock expect, shipping label, shipping void, stock forget")
		}},
	{name: "the label is in doubt, then everything is refused", example: "return", guarded: true, input: returning(1999),
		faults: []world.Rule{
			onPath("/shipping/labels", 1, world.Do{After: world.FaultDrop}),
			onPath("/pay/refunds", 0, status(400)),
		},
		status: "compensated", reason: "step_failed refund http_400", events: []string{"com.shop.return.compensated"}},
	{name: "lost answers, 503, 429", example: "return", guarded: true, input: returning(1999), status: "succeeded", effect: returned, events: []string{"com.shop.return.succeeded"},
		faults: []world.Rule{
			{Match: world.Match{PathPrefix: "/orders"}, Times: 2, Do: world.Do{Before: world.FaultStatus, Status: 503}},
			onPath("/stock", 1, world.Do{After: world.FaultCut}),
			onPath("/shipping", 1, world.Do{After: world.FaultStatus, Status: 500}),
			onPath("/pay/refunds", 1, world.Do{Before: world.FaultStatus, Status: 429}),
		}},
	// The provider does not support keys, and the mail may have been sent, so it is not sent again.
	{name: "the response of the mail service is lost", example: "return", guarded: true, input: returning(1999), faults: []world.Rule{onPath("/mail", 1, world.Do{After: world.FaultDrop})},
		status: "succeeded", effect: returned, events: []string{"com.shop.return.succeeded"}, check: once("mail", "send")},
}
