// Command goagent is the program by which internal/test/examples tests api/client against a server:
// goagent scenario|killed|script. The programs of all SDKs print the same lines, which are in
// sdk/testdata/scenario.txt.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"recourse/api/client"
)

var (
	world = os.Getenv("WORLD") // the mock services
	ctx   = context.Background()
)

func main() {
	err := errors.New("goagent scenario|killed|script")
	switch {
	case len(os.Args) != 2:
	case os.Args[1] == "scenario":
		err = scenario()
	case os.Args[1] == "killed":
		err = killed()
	case os.Args[1] == "script":
		err = scripted()
	}
	switch {
	case errors.Is(err, client.ErrWaits):
		os.Exit(client.Parked)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// say prints texts as they are, and other values as JSON.
func say(what ...any) {
	for i, part := range what {
		if i > 0 {
			fmt.Print(" ")
		}
		switch p := part.(type) {
		case string:
			fmt.Print(p)
		case json.RawMessage:
			var b bytes.Buffer
			_ = json.Compact(&b, p)
			fmt.Print(b.String())
		default:
			doc, _ := json.Marshal(p)
			fmt.Print(string(doc))
		}
	}
	fmt.Println()
}

// post sends a request to the mock services with an idempotency key, as an own step does.
func post(path string, body any, key string) (string, error) {
	doc, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, world+path, bytes.NewReader(doc))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ ID string }
	return answer.ID, json.NewDecoder(resp.Body).Decode(&answer)
}

func refundOf(output any) *client.Undo {
	return &client.Undo{Use: "refund-charge", With: map[string]any{"charge": output.(map[string]any)["charge"]}}
}

// problem prints the code of a problem, or the status of a failure.
func problem(what string, err error) {
	var refusal *client.Error
	var failure *client.Unsuccessful
	switch {
	case err == nil:
		say(what, "no problem")
	case errors.Is(err, client.ErrWaits):
		say(what, "waits")
	case errors.As(err, &refusal):
		say(what, refusal.Status, refusal.Code, refusal.Detail != "")
	case errors.As(err, &failure):
		say(what, failure.Status, failure.Code)
	default:
		say(what, err.Error())
	}
}

func scenario() error {
	c := client.New(os.Getenv("RECOURSE_SERVER"), "")
	for _, part := range []func(*client.Client) error{calls, steps, held, sagas} {
		if err := part(c); err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

func calls(c *client.Client) error {
	s, err := c.Open(ctx, client.Open{Name: "sdk", Actions: []string{"refund", "refund-charge"}, Key: os.Getenv("KEY") + "-calls", Lease: "5s", Input: object{"n": 1}})
	if err != nil {
		return err
	}
	view, err := s.Get(ctx)
	if err != nil {
		return err
	}
	var input struct{ N int }
	if err := json.Unmarshal(view.Input, &input); err != nil {
		return err
	}
	say("life", s.Life, input.N)
	refund := func(order any, amount int, patience time.Duration) (*client.CallView, error) {
		return s.Call(ctx, client.Call{Action: "refund", Input: object{"order": order, "amount": amount}, Patience: patience})
	}
	first, err := refund("o-1", 100, 0)
	if err != nil {
		return err
	}
	again, err := refund("o-1", 100, 0)
	if err != nil {
		return err
	}
	say("call", first.Path, first.Status, again.Path, again.Replayed, first.Key == again.Key)
	charge, err := post("/pay/charges", object{"amount": 5}, "of-"+first.Key)
	if err != nil {
		return err
	}
	once, err := s.Call(ctx, client.Call{Action: "refund-charge", Input: object{"charge": charge}, Once: "a"})
	if err != nil {
		return err
	}
	say("once", once.Path)
	_, err = s.Call(ctx, client.Call{Action: "refund-charge", Input: object{"charge": "none"}})
	problem("failed", err)
	_, err = s.Call(ctx, client.Call{Action: "refund", Input: object{"order": 1}})
	problem("bad input", err)
	_, err = s.Call(ctx, client.Call{Action: "refunds", Input: object{}})
	problem("no action", err)
	_, err = refund("o-2", 20000, 1500*time.Millisecond)
	problem("approval", err)
	if err := s.Undo(ctx, first.Path); err != nil {
		return err
	}
	if err := s.Detach(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err) // the lease ends
	}
	if s, err = c.Attach(ctx, s.ID); err != nil {
		return err
	}
	// The first answer is that it is undone, unless that is lost.
	if _, err := refund("o-1", 100, 0); err != nil {
		var u *client.Unsuccessful
		if !errors.As(err, &u) || u.Status != "undone" {
			return err
		}
	}
	third, err := refund("o-1", 100, 0)
	if err != nil {
		return err
	}
	say("life", s.Life, third.Path)
	if err := s.Abort(ctx, "enough"); err != nil {
		return err
	}
	ended, err := c.Wait(ctx, s.ID)
	if err != nil {
		return err
	}
	say("ended", ended.Status)
	_, err = refund("o-3", 100, 0)
	problem("aborted", err)
	return nil
}

func steps(c *client.Client) error {
	done := []int{}
	var keys []string
	charge := func(ctx context.Context, w client.Work) (any, error) {
		done = append(done, w.Attempt)
		client.Cost(ctx, "0.02")
		id, err := post("/pay/charges", object{"amount": 7}, w.Key)
		return object{"charge": id}, err
	}
	broken := func(_ context.Context, w client.Work) (any, error) {
		done, keys = append(done, w.Attempt), append(keys, w.Key)
		if w.Attempt == 1 {
			return nil, errors.New("broken")
		}
		return object{"same key": keys[len(keys)-1] == keys[len(keys)-2]}, nil
	}
	refused := func(_ context.Context, w client.Work) (any, error) {
		done = append(done, w.Attempt)
		return nil, client.Refuse("no_such_page", "there is no page 7")
	}
	s, err := c.Open(ctx, client.Open{Name: "sdk", Actions: []string{"refund", "refund-charge"}, Key: os.Getenv("KEY") + "-steps", Lease: "5s", Budget: "5.00 EUR"})
	if err != nil {
		return err
	}
	step := func(step client.Step, do func(context.Context, client.Work) (any, error)) json.RawMessage {
		out, stepped := s.Step(ctx, step, do)
		if err == nil {
			err = stepped
		}
		return out
	}
	once := step(client.Step{ID: "charge", UndoOf: refundOf}, charge)
	twice := step(client.Step{ID: "charge", UndoOf: refundOf}, charge)
	if err != nil {
		return err
	}
	say("step", bytes.Equal(once, twice), done)
	tried := func(what string, st client.Step, do func(context.Context, client.Work) (any, error)) {
		_, err := s.Step(ctx, st, do)
		problem(what, err)
	}
	tried("broken", client.Step{ID: "sum", Effect: "none"}, broken)
	sum := step(client.Step{ID: "sum", Effect: "none"}, broken)
	if err != nil {
		return err
	}
	say("done", sum, done)
	tried("refused", client.Step{ID: "page"}, refused)
	tried("refused", client.Step{ID: "page"}, refused)
	tried("other input", client.Step{ID: "page", Input: 7}, refused)
	say("done", done)
	tried("doubt", client.Step{ID: "mail"}, broken)
	tried("doubt", client.Step{ID: "mail", Patience: -1}, broken)
	if err := s.Undo(ctx, "own.charge"); err != nil {
		return err
	}
	tried("undone", client.Step{ID: "charge", UndoOf: refundOf}, charge)
	if err := s.Abort(ctx, "a person has to decide"); err != nil {
		return err
	}
	view, err := s.Get(ctx)
	if err != nil {
		return err
	}
	say("spent", view.Cost.Spent)
	return committed(c)
}

func committed(c *client.Client) error {
	s, err := c.Open(ctx, client.Open{Name: "sdk", Actions: []string{"refund"}, Key: os.Getenv("KEY") + "-commit", Lease: "5s"})
	if err != nil {
		return err
	}
	out, err := s.Step(ctx, client.Step{ID: "none", Effect: "none"}, func(context.Context, client.Work) (any, error) { return 1, nil })
	if err != nil {
		return err
	}
	if err := s.Commit(ctx, object{"refunds": []any{out}}); err != nil {
		return err
	}
	view, err := c.Wait(ctx, s.ID)
	if err != nil {
		return err
	}
	say("committed", view.Status, view.Output)
	return nil
}

// double does the tasks: it refuses 1, and breaks at the first attempts of 2 and 4.
func double(ctx context.Context, t client.Task) (any, error) {
	var input struct{ N int }
	if err := json.Unmarshal(t.Input, &input); err != nil {
		return nil, err
	}
	switch {
	case input.N == 1:
		return nil, client.Refuse("odd", "1 is odd")
	case input.N == 2 && t.Attempt == 1:
		return nil, client.Retryable(errors.New("not now"))
	case input.N == 4 && t.Attempt == 1:
		return nil, errors.New("broken")
	}
	client.Cost(ctx, "0.01")
	return object{"double": 2 * input.N}, nil
}

func held(c *client.Client) error {
	s, err := c.Open(ctx, client.Open{Name: "sdk", Actions: []string{"refund"}, Key: os.Getenv("KEY") + "-held", Lease: "5s"})
	if err != nil {
		return err
	}
	time.Sleep(6 * time.Second) // heartbeats keep it
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = c.Attach(soon, s.ID)
	problem("held", err)
	if err := s.Abort(ctx, ""); err != nil {
		return err
	}
	var refused []bool
	for _, bad := range []*client.Client{client.New("htp://127.0.0.1", ""), client.New(os.Getenv("RECOURSE_SERVER"), "a\nb")} {
		_, err := bad.Get(ctx, "x")
		var refusal *client.Error
		refused = append(refused, err != nil && !errors.As(err, &refusal))
	}
	say("unsendable", refused)
	return nil
}

func sagas(c *client.Client) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	workers.Go(func() {
		if err := (client.Worker{Client: c, Types: []string{"sdk.double"}, Concurrency: 2, Handle: double}).Run(working); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	for n := 1; n <= 4; n++ {
		if err := watched(c, n); err != nil {
			return err
		}
	}
	stop()
	workers.Wait()
	_, err := c.Start(ctx, client.Start{Definition: "none"})
	problem("no saga", err)
	waiting, err := c.Start(ctx, client.Start{Definition: "sdk-double", Input: object{"n": 5}, Key: os.Getenv("KEY") + "-5"})
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	if waiting, err = c.Get(ctx, waiting.ID); err != nil {
		return err
	}
	say("waiting", waiting.Status)
	return nil
}

// watched starts a saga, waits for its end, and reads its journal as it was written.
func watched(c *client.Client, n int) error {
	start := client.Start{Definition: "sdk-double", Input: object{"n": n}, Key: fmt.Sprintf("%s-%d", os.Getenv("KEY"), n)}
	s, err := c.Start(ctx, start)
	if err != nil {
		return err
	}
	view, err := c.Wait(ctx, s.ID)
	if err != nil {
		return err
	}
	var records []client.Record
	for r, err := range c.Watch(ctx, s.ID, 0) {
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	output := struct {
		Double *int `json:"double"`
	}{}
	_ = json.Unmarshal(view.Output, &output) // there is none if it has failed
	var reason any
	if view.Reason != nil {
		reason = view.Reason.Error
	}
	say("saga", n, view.Status, output.Double, reason, view.Cost.Spent, records[0].Kind, records[len(records)-1].Kind)
	again, err := c.Start(ctx, start)
	if err != nil {
		return err
	}
	if view, err = c.Get(ctx, s.ID); err != nil {
		return err
	}
	say("same", again.ID == s.ID, view.Seq == int64(len(records)))
	return nil
}

// killed is killed in the middle of a step, after it, and in the middle of a step that a person
// decides about.
func killed() error {
	s, err := client.AttachFromEnv()
	if err != nil {
		return err
	}
	die := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	say(fmt.Sprintf("life %d: begins as process %d", s.Life, os.Getpid()))
	_, err = s.Step(ctx, client.Step{ID: "charge", InDoubt: "retry", UndoOf: refundOf}, func(_ context.Context, w client.Work) (any, error) {
		id, err := post("/pay/charges", object{"amount": 7}, w.Key)
		if s.Life == 1 {
			die()
		}
		return object{"charge": id}, err
	})
	if err != nil {
		return err
	}
	if _, err := s.Call(ctx, client.Call{Action: "refund", Input: object{"order": "o-1", "amount": 100}}); err != nil {
		return err
	}
	if s.Life == 2 {
		die()
	}
	_, err = s.Step(ctx, client.Step{ID: "mail", Patience: -1}, func(_ context.Context, w client.Work) (any, error) {
		_, _ = post("/mail/send", object{"to": "ann@shop.example"}, w.Key) // it ignores the key
		die()
		return nil, nil
	})
	if err != nil {
		return err
	}
	say("done")
	return s.Commit(ctx, nil)
}
