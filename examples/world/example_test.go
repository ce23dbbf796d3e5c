package world_test

import (
	"fmt"
	"net/http"
	"strings"

	"recourse/examples/world"
)

// The response to a charge is lost, and the same request is sent again: one effect.
func Example() {
	s, err := world.Start("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	err = s.AddFault(world.Rule{
		Match: world.Match{PathPrefix: "/pay/charges"},
		Times: 1,
		Do:    world.Do{After: world.FaultStatus, Status: 500},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		req, _ := http.NewRequest("POST", s.URL+"/pay/charges", strings.NewReader(`{"amount": 19.10}`))
		req.Header.Set("Idempotency-Key", "order-1")
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Printf("%d replayed: %q\n", resp.StatusCode, resp.Header.Get("Idempotency-Replayed"))
	}
	fmt.Println("effects:", len(s.Ledger().Key("order-1").Effects()), "net:", s.Balance()["pay"].Net)
	// Output:
	// 500 replayed: ""
	// 201 replayed: "true"
	// effects: 1 net: 1
}
