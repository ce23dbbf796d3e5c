package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/cli/remote"
	"recourse/saga/machine"
)

// prices is the price list of the demo's stub model, so that its sagas cost something.
const prices = `llm:
  currency: USD
  prices:
    gpt-5-mini: {input: "0.25", output: "2.00"}
`

// model starts the stub of a language model and returns the server's flags for it.
func (d *player) model() ([]string, error) {
	var err error
	if d.llm, err = llmstub.New(llmstub.Config{}).Listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	config := filepath.Join(d.dir, "config.yaml")
	if err := os.WriteFile(config, []byte(prices), 0o600); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return []string{"--config", config, "--llm-base-url", d.llm.URL + "/v1", "--llm-api-key", "stub"}, nil
}

// claim returns the input of a refund-claim.
func claim(order, amount, complaint string) string {
	b, _ := json.Marshal(map[string]any{"order": order, "sku": "lamp-7", "amount": json.Number(amount), "email": "customer@example.com", "complaint": complaint})
	return string(b)
}

// leave starts the sagas that remain for the user to try: one that was undone after it had costs,
// one whose refund is in doubt, and one that needs a decision.
func (d *player) leave() error {
	refused := world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/refunds"}, Times: 1,
		Do: world.Do{Before: world.FaultStatus, Status: 422, Body: `{"title":"the card has expired","status":422}`}}
	lost := world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/refunds"}, Times: 1, Do: world.Do{After: world.FaultDrop}}

	if err := d.control.AddFault(d.Ctx, refused); err != nil {
		return err
	}
	undone, err := d.begin("refund-claim", claim("A-2001", "24.50", "The lamp came with a broken shade."))
	if err != nil {
		return err
	}
	if err := d.approve(undone); err != nil {
		return err
	}
	if _, _, err := d.client.Await(undone, patience); err != nil {
		return err
	}
	// A database of an earlier demo may have them already, and an order can be returned only once.
	if kept, err := d.live("order-return"); err != nil || kept {
		return err
	}
	if err := d.control.AddFault(d.Ctx, lost); err != nil {
		return err
	}
	doubtful, err := d.begin("order-return", `{"order":"A-2002","sku":"boots-42","amount":64.00,"email":"customer@example.com"}`)
	if err != nil {
		return err
	}
	if _, err := d.waiting(doubtful); err != nil {
		return err
	}
	asking, err := d.begin("refund-claim", claim("A-2003", "39.90", "It flickers, and the switch gets hot."))
	if err != nil {
		return err
	}
	_, err = d.waiting(asking)
	return err
}

// live reports whether a saga of a definition has not ended.
func (d *player) live(definition string) (bool, error) {
	var page struct {
		Data []machine.View `json:"data"`
	}
	r, err := d.client.Do(remote.Call{Method: http.MethodGet, Path: "/v1/sagas?limit=1&status=running,waiting,paused,compensating,stuck&definition=" + definition})
	if err != nil {
		return false, err
	}
	err = r.Into(&page)
	return len(page.Data) > 0, err
}

// begin starts a saga.
func (d *player) begin(definition, input string) (string, error) {
	var v machine.View
	r, err := d.client.Do(remote.Call{Method: http.MethodPost, Path: "/v1/sagas", Body: remote.StartRequest{Definition: definition, Input: json.RawMessage(input)}})
	if err != nil {
		return "", err
	}
	err = r.Into(&v)
	return v.ID, err
}

// approve approves a saga's request, as a person would.
func (d *player) approve(id string) error {
	e, err := d.waiting(id)
	if err != nil {
		return err
	}
	_, err = d.client.Do(remote.Call{Method: http.MethodPost, Path: remote.SagaPath(id, "steps", e.Path, "approve"),
		Body: map[string]any{"shown": e.ShownHash, "comment": "the photo shows it"}})
	return err
}

// guide prints how to continue.
func (d *player) guide(took time.Duration) {
	d.Printf("\nThat took %.1f s. The page is at\n\n  %s\n\n", took.Seconds(), d.server.URL)
	d.Printf("Three more sagas wait for you there: a claim that was undone (why, and what did it cost?), a refund that is\n" +
		"in doubt, and a refund that wants your approval.\n")
}
