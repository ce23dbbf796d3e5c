package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"recourse/api/client"
)

// An agent refunds an order and writes a report. If it is killed and started again, it repeats
// neither; if it gives up, the refund is undone.
func Example() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	c := client.New("http://127.0.0.1:8080", os.Getenv("RECOURSE_API_KEY"))
	s, err := c.Open(ctx, client.Open{Name: "support", Actions: []string{"refund"}, Key: "ticket-7"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Detach(ctx) }()
	_, err = s.Call(ctx, client.Call{Action: "refund", Input: map[string]any{"order": "o-1", "amount": 1910}})
	if failed, ok := errors.AsType[*client.Unsuccessful](err); ok {
		_ = s.Abort(ctx, failed.Error())
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	report, err := s.Step(ctx, client.Step{ID: "report", Effect: "none"}, func(context.Context, client.Work) (any, error) {
		return "order o-1 is refunded", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(report))
	if err := s.Commit(ctx, nil); err != nil {
		log.Fatal(err)
	}
}
