package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// warmUps is the number of requests of each agent and side before those that count.
const warmUps = 3

// blockOf is the number of requests that an agent makes on one side before it is the other's turn,
// if several agents work at once. One agent changes sides after each request.
const blockOf = 8

// request makes one request to the remote service itself, or through recourse, and returns how long
// it took.
type request func(ctx context.Context, a *agent, body []byte, through bool) (time.Duration, error)

// compare makes requests on both sides in turns, as many agents at once as there are, and notes the
// result in the report. The agents of a block begin apart.
func (c *agents) compare(ctx context.Context, run AgentRun, list []*agent, apart time.Duration, do request, body func() []byte) (AgentRun, error) {
	per := 1
	if len(list) > 1 {
		per = blockOf
	}
	if _, err := c.block(ctx, list, warmUps, apart, true, do, body); err != nil {
		return run, err
	}
	if _, err := c.block(ctx, list, warmUps, apart, false, do, body); err != nil {
		return run, err
	}
	before, err := c.db.before(ctx, c.engine, c.Stub, engineCommits(c.engine))
	if err != nil {
		return run, err
	}
	var took [2][]time.Duration // direct, through
	blocks := max(run.Times/(per*len(list)), 1)
	for i := range blocks {
		for turn := range 2 {
			side := (i + turn) % 2
			all, err := c.block(ctx, list, per, apart, side == 1, do, body)
			if err != nil {
				return run, err
			}
			took[side] = append(took[side], all...)
		}
	}
	after, err := c.db.after(ctx, c.engine, c.Stub, engineCommits(c.engine))
	if err != nil {
		return run, err
	}
	used, direct, through := after.minus(before), quantiles(took[0]), quantiles(took[1])
	run.Times = len(through.All)
	run.DirectP50, run.DirectP99 = ms(direct.Quantile(.5)), ms(direct.Quantile(.99))
	run.P50, run.P99 = ms(through.Quantile(.5)), ms(through.Quantile(.99))
	run.Added50, run.Added99 = round(run.P50-run.DirectP50), round(run.P99-run.DirectP99)
	run.Commits = round(float64(used.commits) / float64(run.Times))
	if used.commits > 0 {
		run.Commit = ms(used.tally.took / time.Duration(used.commits))
	}
	run.CPU = ms(used.program / time.Duration(run.Times))
	c.report.Runs = append(c.report.Runs, run)
	return run, nil
}

// block has each agent make n requests on one side. The bodies are made before.
func (c *agents) block(ctx context.Context, list []*agent, n int, apart time.Duration, through bool, do request, body func() []byte) ([]time.Duration, error) {
	bodies := make([][]byte, n*len(list))
	for i := range bodies {
		bodies[i] = body()
	}
	took, errs := make([]time.Duration, len(bodies)), make([]error, len(list))
	var wait sync.WaitGroup
	for i, a := range list {
		wait.Go(func() {
			errs[i] = pause(ctx, time.Duration(i)*apart)
			for j := i * n; j < (i+1)*n && errs[i] == nil; j++ {
				took[j], errs[i] = do(ctx, a, bodies[j], through)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// quantiles returns a sorted copy of latencies.
func quantiles(list []time.Duration) Took { return Took{All: slices.Sorted(slices.Values(list))} }

// message is a message of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// prompt returns a request to the model with a conversation of about so many bytes, which nobody
// has sent before.
func (c *agents) prompt(size int, takes time.Duration, stream bool) []byte {
	list := []message{{"system", prose.text(c.random, messageBytes)}}
	for n := messageBytes; n < size; n += messageBytes {
		role := "user"
		if len(list)%2 == 0 {
			role = "assistant"
		}
		list = append(list, message{role, prose.text(c.random, messageBytes)})
	}
	return asked(list, answerTokens, model{prose, takes}, stream)
}

// asked returns a request to the model with a conversation.
func asked(list []message, tokens int, m model, stream bool) []byte {
	b, err := json.Marshal(struct {
		Model     string    `json:"model"`
		MaxTokens int       `json:"max_tokens"`
		Stream    bool      `json:"stream,omitempty"`
		Messages  []message `json:"messages"`
	}{m.name(), tokens, stream, list})
	if err != nil {
		panic(fmt.Sprintf("encode a prompt: %v", err)) // it has only texts
	}
	return b
}
