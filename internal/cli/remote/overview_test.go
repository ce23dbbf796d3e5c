package remote

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// What a child saga has cost is in its parent's cost, too, and counts once.
func TestCostOfTodayCountsChildrenOnce(t *testing.T) {
	t.Parallel()
	cl, err := ServerFlags{Server: "http://recourse.example"}.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cl.http.Transport = answers(func(r *http.Request) *http.Response {
		_, _ = io.Copy(io.Discard, r.Body)
		return answered(http.StatusOK, `{"data": [{"id": "1", "cost": {"currency": "EUR", "spent": "10", "children": {"spent": "9"}}}, {"id": "2", "cost": {"currency": "EUR", "spent": "9"}}]}`)
	})
	o := &overview{client: cl}
	if err := o.readCost(time.Now()); err != nil || len(o.cost) != 1 || o.cost[0].String() != "10 EUR" {
		t.Errorf("%v, %v", o.cost, err)
	}
}
