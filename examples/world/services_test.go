package world_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"recourse/examples/world"

	"github.com/google/go-cmp/cmp"
)

func TestNumbersComeBackAsTheyWere(t *testing.T) {
	w := world.New(world.Config{})
	for _, literal := range []string{"9007199254740993", "19.10", "0.1000000000000000000000001", "1e400", "0", `"19.10"`} {
		made := want(t, w, request{method: "POST", path: "/pay/charges", key: "k" + literal, body: `{"amount": ` + literal + `}`}, 201)
		shown := want(t, w, request{method: "GET", path: "/pay/charges/" + made.id(t)}, 200)
		undone := want(t, w, request{method: "POST", path: "/pay/charges/" + made.id(t) + "/refund"}, 200)
		for _, r := range []response{made, shown, undone} {
			if got := r.field(t, "amount"); got != literal {
				t.Errorf("amount: got %s, want %s", got, literal)
			}
		}
		echo := want(t, w, request{method: "POST", path: "/things", body: `{"a":[` + literal + `],"b":"<&>"}`}, 201)
		if got, exp := echo.field(t, "echo"), `{"a":[`+literal+`],"b":"<&>"}`; got != exp {
			t.Errorf("echo: got %s, want %s", got, exp)
		}
	}
}

func TestWhatServicesAnswer(t *testing.T) {
	tests := []struct {
		request
		status int
		field  string
		want   string
	}{
		{request{method: "POST", path: "/air/bookings", body: `{"route":"CPH-LIS","date":"2026-12-01","passenger":"p1"}`}, 201, "price", "129.90"},
		{request{method: "POST", path: "/air/bookings", body: `{"route":"CPH-LIS","price":99.00}`}, 201, "price", "99.00"},
		{request{method: "POST", path: "/air/bookings", body: `{}`}, 400, "status", "400"},
		{request{method: "POST", path: "/air/bookings", body: `[]`}, 400, "status", "400"},
		{request{method: "POST", path: "/air/bookings", body: `null`}, 400, "status", "400"},
		{request{method: "POST", path: "/air/bookings", body: `{"route":"x","price":"dear"}`}, 400, "status", "400"},
		{request{method: "GET", path: "/air/bookings"}, 400, "status", "400"},
		{request{method: "GET", path: "/air/bookings/bk_99"}, 404, "status", "404"},
		{request{method: "DELETE", path: "/air/bookings/bk_99"}, 404, "status", "404"},
		{request{method: "POST", path: "/hotels/reservations", body: `{"nights":3}`}, 201, "total", "268.50"},
		{request{method: "POST", path: "/hotels/reservations"}, 201, "total", "89.50"},
		{request{method: "POST", path: "/hotels/reservations", body: `{"total":1.0}`}, 201, "total", "1.0"},
		{request{method: "POST", path: "/hotels/reservations", body: `{"nights":0}`}, 400, "status", "400"},
		{request{method: "POST", path: "/hotels/reservations", body: `{"nights":1.5}`}, 400, "status", "400"},
		{request{method: "POST", path: "/pay/charges", body: `{"amount":-0.01}`}, 400, "status", "400"},
		{request{method: "POST", path: "/pay/charges", body: `{"amount":null}`}, 400, "status", "400"},
		{request{method: "POST", path: "/pay/refunds", body: `{"amount":1}`}, 400, "status", "400"},
		{request{method: "DELETE", path: "/pay/charges"}, 400, "status", "400"},
		{request{method: "POST", path: "/shipping/labels", body: `{"order":"a/b"}`}, 201, "url", `"https://carrier.example/labels/a%2Fb.pdf"`},
		{request{method: "POST", path: "/mail/send", body: `{}`}, 400, "status", "400"},
		{request{method: "GET", path: "/orders/orders/o1/returnable?sku=s1"}, 200, "returnable", "true"},
		{request{method: "GET", path: "/orders/orders/final-1/returnable?sku=s1"}, 200, "returnable", "false"},
		{request{method: "GET", path: "/orders/orders/o1/returnable?sku=s1"}, 200, "sku", `"s1"`},
		{request{method: "GET", path: "/search/v1/search?q=a+b"}, 200, "urls", `["https://site.example/home","https://site.example/a%20b/1","https://site.example/a%20b/2","https://site.example/a%20b/3"]`},
		{request{method: "GET", path: "/search/v1/search"}, 400, "status", "400"},
		{request{method: "POST", path: "/cms/pages", body: `{"title":"a b"}`}, 201, "url", `"https://cms.example/a%20b"`},
		{request{method: "POST", path: "/cms/pages", body: `{"title":1}`}, 400, "status", "400"},
		{request{method: "POST", path: "http://pay.example/charges", body: `{"amount":1999}`}, 201, "amount", "1999"},
		{request{method: "POST", path: "http://things.example/charges", body: `{"amount":1999}`}, 404, "status", "404"},
		{request{method: "POST", path: "/things", body: `{`}, 400, "status", "400"},
		{request{method: "POST", path: "/things"}, 201, "echo", "null"},
		{request{method: "POST", path: "/things/things", body: "1"}, 201, "echo", "1"},
		{request{method: "GET", path: "/things"}, 404, "status", "404"},
		{request{method: "PATCH", path: "/things/x"}, 404, "status", "404"},
		{request{method: "DELETE", path: "/air/bookings//"}, 404, "status", "404"},
		{request{method: "GET", path: "/elsewhere"}, 404, "status", "404"},
		{request{method: "GET", path: "/"}, 404, "status", "404"},
	}
	for _, tt := range tests {
		t.Run(tt.method+tt.path+tt.body, func(t *testing.T) {
			w := world.New(world.Config{})
			if got := want(t, w, tt.request, tt.status).field(t, tt.field); got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.field, got, tt.want)
			}
			if got := len(w.Ledger().Requests()); got != 1 {
				t.Errorf("requests in the ledger: got %d, want 1", got)
			}
		})
	}
}

func TestFindByKey(t *testing.T) {
	for _, tt := range []struct{ path, query, body, list, undo string }{
		{"/air/bookings", "client_ref", `{"route":"r"}`, "items", "DELETE"},
		{"/pay/charges", "idempotency_key", `{"amount":1}`, "data", "refund"},
		{"/pay/refunds", "idempotency_key", `{"order":"o","amount":1}`, "data", "cancel"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			w := world.New(world.Config{})
			find := request{method: "GET", path: tt.path + "?" + tt.query + "=k1"}
			if got := want(t, w, find, 200); got.field(t, "count") != "0" || got.field(t, tt.list) != "[]" {
				t.Errorf("before: got %s", got.body)
			}
			made := want(t, w, request{method: "POST", path: tt.path, key: "k1", body: tt.body}, 201)
			want(t, w, request{method: "POST", path: tt.path, key: "k2", body: tt.body}, 201)
			if got := want(t, w, find, 200); got.field(t, "count") != "1" || got.field(t, tt.list) != "["+made.body[:len(made.body)-1]+"]" {
				t.Errorf("after: got %s, want %s", got.body, made.body)
			}
		})
	}
}

func TestUndo(t *testing.T) {
	undos := map[string]string{
		"/air/bookings": "DELETE", "/hotels/reservations": "cancel", "/pay/charges": "refund", "/pay/refunds": "cancel",
		"/stock/expected-returns": "DELETE", "/shipping/labels": "void", "/ship/orders": "cancel", "/things": "DELETE",
	}
	for _, r := range writes {
		how, ok := undos[r.path]
		if !ok {
			continue
		}
		t.Run(r.path, func(t *testing.T) {
			w := world.New(world.Config{})
			r.key = "do"
			made := want(t, w, r, 201)
			undo := request{method: "DELETE", path: r.path + "/" + made.id(t), key: "undo"}
			if how != "DELETE" {
				undo.method, undo.path = "POST", undo.path+"/"+how
			}
			want(t, w, undo, 200)
			want(t, w, undo, 200)
			for _, key := range []string{"other", ""} {
				undo.key = key
				want(t, w, undo, http.StatusNotFound)
			}
			l := w.Ledger()
			if u := l.Undos(); len(u) != 1 || u[0].Undoes != made.id(t) || u[0].Key != "undo" || u[0].Status != "200" {
				t.Errorf("undos: got %+v", u)
			}
			service := l[0].Service
			if got := w.Balance(); got.Net() != 0 || got[service] != (world.Balance{Effects: 1, Undone: 1}) {
				t.Errorf("balance: got %+v", got)
			}
			if got := l.Live(); got != nil {
				t.Errorf("live: got %+v", got)
			}
		})
	}
}

func TestPutThing(t *testing.T) {
	w := world.New(world.Config{})
	put := func(key, body string, status int) {
		t.Helper()
		want(t, w, request{method: "PUT", path: "/things/lamp", key: key, body: body}, status)
	}
	put("k1", `{"n":1}`, 201)
	put("k2", `{"n":2}`, 200)
	shown := want(t, w, request{method: "GET", path: "/things/lamp"}, 200)
	if shown.field(t, "echo") != `{"n":2}` || shown.id(t) != "lamp" {
		t.Errorf("got %s", shown.body)
	}
	want(t, w, request{method: "DELETE", path: "/things/lamp", key: "k3"}, 200)
	want(t, w, request{method: "GET", path: "/things/lamp"}, 404)
	if got := w.Balance()["things"]; got != (world.Balance{Effects: 2, Undone: 2}) {
		t.Errorf("balance: got %+v, want both undone", got)
	}
	put("k4", `{"n":3}`, 201)
	want(t, w, request{method: "DELETE", path: "/things/lamp", key: "k5"}, 200)
	if got := w.Balance()["things"]; got != (world.Balance{Effects: 3, Undone: 3}) {
		t.Errorf("balance after making it again: got %+v", got)
	}
}

func TestUndoByKey(t *testing.T) {
	charge := request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}
	undo := request{method: "DELETE", path: "/pay/charges?idempotency_key=k1", key: "u1"}

	t.Run("after the charge", func(t *testing.T) {
		w := world.New(world.Config{})
		want(t, w, charge, 201)
		if got := want(t, w, undo, 200).field(t, "count"); got != "1" {
			t.Errorf("count: got %s, want 1", got)
		}
		want(t, w, undo, 200)
		undo.key = "u2"
		if got := want(t, w, undo, 200).field(t, "count"); got != "0" {
			t.Errorf("count the second time: got %s, want 0", got)
		}
		want(t, w, charge, http.StatusGone)
		if got := w.Balance()["pay"]; got != (world.Balance{Effects: 1, Undone: 1}) {
			t.Errorf("balance: got %+v", got)
		}
	})
	t.Run("before the charge", func(t *testing.T) {
		w := world.New(world.Config{})
		want(t, w, undo, 200)
		want(t, w, charge, http.StatusGone)
		charge.key = "k2"
		want(t, w, charge, 201)
		charge.key = "k1"
		want(t, w, request{method: "POST", path: "/pay/refunds", key: "k1", body: `{"order":"o","amount":1}`}, 201)
		if got := w.Balance()["pay"]; got != (world.Balance{Effects: 2, Net: 2}) {
			t.Errorf("balance: got %+v", got)
		}
	})
	t.Run("while the charge is in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := world.New(world.Config{})
			mustFault(t, w, world.Rule{Match: world.Match{Method: "POST"}, Do: world.Do{DelayMS: 1000}})
			late := make(chan response)
			go func() { late <- call(t, w, charge) }()
			synctest.Wait()
			want(t, w, undo, 200)
			if got := <-late; got.status != http.StatusGone {
				t.Errorf("late charge: got %d %s, want 410", got.status, got.body)
			}
			if got := w.Balance().Net(); got != 0 {
				t.Errorf("net: got %d, want 0", got)
			}
			w.Close()
		})
	})
}

func TestToken(t *testing.T) {
	w := world.New(world.Config{Tokens: map[string]string{"pay": "right"}})
	r := request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}
	for _, token := range []string{"", "wrong"} {
		r.token = token
		got := want(t, w, r, http.StatusUnauthorized)
		if got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("WWW-Authenticate: got %v", got.header)
		}
	}
	want(t, w, request{method: "POST", path: "/things"}, 201)
	r.token = "right"
	want(t, w, r, 201)
	w.SetToken("pay", "new")
	want(t, w, r, http.StatusUnauthorized)
	w.SetToken("pay", "")
	r.token = ""
	want(t, w, r, 201)
	statuses := make([]string, 0, 5)
	for _, e := range w.Ledger().Service("pay").Requests() {
		statuses = append(statuses, e.Status)
	}
	if diff := cmp.Diff([]string{"401", "401", "201", "401", "201"}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}
