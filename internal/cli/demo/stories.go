package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"recourse/examples/world"
	"recourse/internal/cli/remote"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/saga/machine"
)

// scene is one story of the demo: a saga, the world's faults, and other events during it.
type scene struct {
	title, intro string
	definition   string
	input        string
	fault        *world.Rule
	during       func(d *player, id string) error
}

var stories = []scene{
	{
		title:      "It works",
		intro:      "A flight, a hotel, a charge, a mail. Look at the order: each request (→) is in the journal before it is sent.",
		definition: "booking",
		input:      `{"traveller":"p-1001","to":"LIS","depart":"2027-05-01","nights":2,"card":"4242"}`,
	},
	{
		title:      "It fails, and is undone",
		intro:      "The card is declined (402). Look at the end: the hotel is cancelled first, then the flight: the reverse order.",
		definition: "booking",
		input:      `{"traveller":"p-1002","to":"ROM","depart":"2027-06-12","nights":3,"card":"0002"}`,
		fault: &world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/charges"}, Times: 1,
			Do: world.Do{Before: world.FaultStatus, Status: 402, Body: `{"title":"card declined","status":402}`}},
	},
	{
		title: "The response is lost",
		intro: "The charge is made, then the connection drops: has it happened or not? Look at the key: it is sent again,\n" +
			"unchanged, and the provider returns its stored response. One charge, not two.",
		definition: "booking",
		input:      `{"traveller":"p-1003","to":"PAR","depart":"2027-07-14","nights":1,"card":"4242"}`,
		fault:      &world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{After: world.FaultDrop}},
	},
	{
		title: "The server is killed",
		intro: "The charge is made, the response is on its way, and the server gets a kill -9. Look at the ⚡: a new process\n" +
			"finds the intent without an outcome in the journal, and finishes the job. Still one charge.",
		definition: "booking",
		input:      `{"traveller":"p-1004","to":"BER","depart":"2027-08-03","nights":2,"card":"4242"}`,
		fault:      &world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{After: world.FaultHang}},
		during:     (*player).crash,
	},
	{
		title: "Nobody knows, so a person is asked",
		intro: "The refund's response is lost, and its definition says `in_doubt: ask`: never guess about money. Look at the ☞:\n" +
			"the saga waits in the inbox until someone has checked, and continues with what they found.",
		definition: "order-return",
		input:      `{"order":"A-1001","sku":"boots-42","amount":89.90,"email":"customer@example.com"}`,
		fault:      &world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/refunds"}, Times: 1, Do: world.Do{After: world.FaultDrop}},
		during:     (*player).ask,
	},
}

// patience is the maximum time of a story.
const patience = 30 * time.Second

// play starts a story's saga, runs its events, and prints its journal.
func (d *player) play(s scene) error {
	if s.fault != nil {
		if err := d.control.AddFault(d.Ctx, *s.fault); err != nil {
			return err
		}
	}
	var v machine.View
	r, err := d.client.Do(remote.Call{Method: http.MethodPost, Path: "/v1/sagas", Body: remote.StartRequest{Definition: s.definition, Input: json.RawMessage(s.input)}})
	if err != nil {
		return err
	}
	if err := r.Into(&v); err != nil {
		return err
	}
	d.sagas = append(d.sagas, played{v.ID, s.definition})
	if s.during != nil {
		if err := s.during(d, v.ID); err != nil {
			return err
		}
	}
	if _, v, err = d.client.Await(v.ID, patience); err != nil {
		return err
	}
	if !v.Status.Terminal() {
		return fmt.Errorf("saga %s has not ended in %s: it is %s", v.ID, patience, v.Status)
	}
	records, err := d.client.Journal(v.ID)
	if err != nil {
		return err
	}
	return view.PrintStory(d.App, d.defs[s.definition], records)
}

// does prints what the demo does, as a person would type it.
func (d *player) does(format string, args ...any) {
	d.Printf("%s\n", story.Paint("            $ "+fmt.Sprintf(format, args...), story.Dimmed, d.Colour))
}

// crash kills the server after the charge took effect, and starts another one.
func (d *player) crash(id string) error {
	var step machine.StepView
	if _, err := d.client.Get(remote.SagaPath(id, "steps", "charge"), &step); err != nil {
		return err
	}
	if err := d.effect(step.Key); err != nil {
		return err
	}
	d.does("kill -9 %d   # the charge is made, its response has not been read", d.server.PID())
	d.server.Kill()
	if err := d.serve(); err != nil {
		return err
	}
	d.does("recourse serve   # process %d", d.server.PID())
	return nil
}

// effect waits until the ledger has an effect with the key.
func (d *player) effect(key string) error {
	var after int64
	for until := time.Now().Add(patience); time.Now().Before(until); {
		fresh, err := d.control.Ledger(d.Ctx, after, time.Second)
		if err != nil {
			return err
		}
		if len(fresh.Effects().Key(key)) > 0 {
			return nil
		}
		if len(fresh) > 0 {
			after = fresh[len(fresh)-1].N
		}
	}
	return fmt.Errorf("nothing happened with the key %s", key)
}

// ask resolves a step in doubt as a person would: check in the remote service, then decide.
func (d *player) ask(id string) error {
	e, err := d.waiting(id)
	if err != nil {
		return err
	}
	query := "/pay/refunds?idempotency_key=" + url.QueryEscape(e.Key)
	d.does("recourse inbox")
	d.Printf("            %s: %s\n", e.Kind, e.Title)
	found, err := d.query(query)
	if err != nil {
		return err
	}
	d.does("curl %s", d.world.URL+query)
	d.Printf("            %s\n", story.Short(string(found), 100))
	d.does("recourse resolve %s… refund --outcome succeeded --set-output '…' --reason 'the provider has it'", id[:8])
	d.Printf("\n")
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(found, &list); err != nil || len(list.Data) == 0 {
		return errors.New("the remote service has no refund with the key")
	}
	_, err = d.client.Do(remote.Call{Method: http.MethodPost, Path: remote.SagaPath(id, "steps", e.Path, "resolve"),
		Header: map[string]string{"If-Match": fmt.Sprintf("%q", e.ETag)},
		Body:   map[string]any{"outcome": "succeeded", "output": list.Data[0], "reason": "the provider has it"}})
	return err
}

// waiting waits for the saga's entry in the inbox.
func (d *player) waiting(id string) (remote.InboxEntry, error) {
	for until := time.Now().Add(patience); time.Now().Before(until); {
		var p remote.Page[remote.InboxEntry]
		if _, err := d.client.Get("/v1/inbox?saga="+id, &p); err != nil {
			return remote.InboxEntry{}, err
		}
		if len(p.Data) > 0 {
			return p.Data[0], nil
		}
		if !d.client.Pause(30 * time.Millisecond) {
			break
		}
	}
	return remote.InboxEntry{}, errors.New("the saga did not come to the inbox")
}

// query reads from the world, as a person with a browser would.
func (d *player) query(query string) ([]byte, error) {
	req, err := http.NewRequestWithContext(d.Ctx, http.MethodGet, d.world.URL+query, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the world: %w", err)
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}
