package sim

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
	"recourse/saga/machine"
)

// models are the providers of the simulated world, and their prices.
var models = llm.Config{
	Providers: []llm.Provider{{Name: "w", BaseURL: "http://w/llm"}},
	Prices:    map[string]llm.Price{"m": {Input: "10", Output: "1000"}},
}

// impatient returns the step of a question with a short timeout, so that a lost response does not
// take most of a run's time.
func impatient(step *saga.Step) *saga.Step {
	quick := *step
	quick.Timeout = 2 * time.Second
	return &quick
}

// modelTask is a question that an agent asks a model.
type modelTask struct {
	text   string
	action string // the tool that the model calls. The answer is a stream then. "": it calls none
}

func newModelTask(rng *rand.Rand, policy *saga.SessionData) *modelTask {
	t := &modelTask{text: strconv.Itoa(rng.IntN(2))}
	if rng.IntN(2) == 0 {
		t.action = "charge"
		if !slices.Contains(policy.Actions, "charge@1") {
			t.action = "book"
		}
	}
	return t
}

// item returns the question as this process writes it.
func (t *modelTask) item(p *agentProcess) string {
	return `{"role":"user","content":"ask ` + t.text + p.stamp + `"}`
}

// prompt returns the request with the question, and with the conversation before it. The members
// may come in another order than in an earlier process, and it names another user.
func (t *modelTask) prompt(p *agentProcess) *ask.Prompt {
	messages := `"messages":[` + strings.Join(append(slices.Clone(p.talk), t.item(p)), ",") + `]`
	stream := strconv.FormatBool(t.action != "")
	body := `{"model":"m","max_tokens":9,"stream":` + stream + `,` + messages + `}`
	if p.number%2 == 1 {
		body = `{` + messages + `, "user":"p` + strconv.Itoa(p.number) + `", "max_tokens":9, "model":"m", "stream": ` + stream + `}`
	}
	route, _ := ask.Find(llm.OpenAIAPI, "/chat/completions")
	prompt, err := ask.Parse(route, []byte(body), "", nil, ask.Rules{})
	if err != nil {
		panic(err)
	}
	return prompt
}

// question asks a model, as package api does: the recorded answer, or a new one. After a failure,
// or if it loses patience, it asks again.
func (p *agentProcess) question(t *modelTask, try int, again bool, then func()) {
	a := p.a
	a.read()
	if life, _, _ := a.m.Life(); life != p.life || a.m.Closed() {
		p.dead = true
		return
	}
	prompt := t.prompt(p)
	if found := a.index.Answers(prompt.Identity, p.used, false, again); found != nil {
		p.hear(t, prompt, try, found.Path, then)
		return
	}
	c := saga.AskModel{Life: p.life, Identity: prompt.Identity, Blobs: prompt.Keep(a.index), Input: saga.Encode(prompt.Question)}
	if from := a.index.Diverges(prompt, p.life, p.used); from != nil {
		if a.policy.OnDivergence == saga.DivergenceStop {
			p.exit()
			return
		}
		var err error
		if c.Diverged, err = from.Divergence(prompt, ask.Rules{}, a.s.contents(a.session)); err != nil {
			panic(err)
		}
	}
	p.ask(saga.Command{Do: c}, func(path string, no *machine.Refusal) {
		switch {
		case no == nil:
			p.hear(t, prompt, try, path, then)
		case no.Code == "budget_exhausted" || no.Code == "limit":
			then()
		default:
			p.refused(no, func() { p.question(t, try, again, then) })
		}
	})
}

// exit ends a process that a model may not answer. Another one may begin.
func (p *agentProcess) exit() {
	s, a := p.a.s, p.a
	p.dead = true
	if s.healed || s.aside.IntN(2) == 0 {
		return // a person finds the session
	}
	s.after(s.aside.between(0, 9*time.Second), func() {
		if a.process == p {
			a.begin(p.secret)
		}
	})
}

// hear waits for the answer to a question.
func (p *agentProcess) hear(t *modelTask, prompt *ask.Prompt, try int, path string, then func()) {
	s, a := p.a.s, p.a
	p.used[path] = ask.Served
	a.read()
	found := a.index.At(path)
	if found == nil {
		s.violate(a.session, "27: the question %s was asked, and is not in the journal", path)
		return
	}
	early := p.listen(t, found)
	lost := 6 // one of so many recorded answers is lost
	if a.forgets && p.number > 0 {
		// The question may have been asked several times in an earlier life. Then a lost answer,
		// and the question again, must not lead to the answer after it.
		lost = 2
	}
	switch {
	case !found.Ended && a.m.Ended():
		then()
		return
	case !found.Ended && s.aside.IntN(4) == 0, found.Output != nil && s.aside.IntN(lost) == 0:
		// It loses patience, or the response is lost. Its server may not notice that.
		again := s.aside.IntN(2) == 0
		if !again || s.aside.IntN(2) == 0 {
			p.used[path] = ask.Left
		}
		p.later(s.aside.between(0, time.Second), func() { p.question(t, try, again, then) })
		return
	case !found.Ended:
		p.later(s.aside.between(50*time.Millisecond, 500*time.Millisecond), func() { p.hear(t, prompt, try, path, then) })
		return
	case found.Output == nil && try < 2:
		p.later(s.aside.between(0, time.Second), func() { p.question(t, try+1, false, then) })
		return
	case found.Output == nil:
		then()
		return
	}
	// The k-th answer to a question is the same in every life.
	k := prompt.Identity + "#" + strconv.Itoa(p.heard[prompt.Identity])
	p.heard[prompt.Identity]++
	switch before := a.heard[k]; {
	case before == "":
		a.heard[k] = found.Output.Answer
	case before != found.Output.Answer:
		s.violate(a.session, "27: %s answers a question that had another answer in an earlier life", path)
	}
	asked := s.askedBy(a.session, path)
	said := s.world.answers[idempotency.Key(asked, path, journal.Do, 0)]
	content := s.content(a.session, found.Output.Answer)
	if content != said && !(content == "" && s.contentLost(a.session)) {
		s.violate(a.session, "27: the answer to %s is %q, and the provider's was %q", path, content, said)
	}
	if !strings.HasPrefix(content, early) {
		s.violate(a.session, "27: the agent has got %q of the answer to %s, which is %q", early, path, content)
	}
	if !a.forgets {
		p.talk = append(p.talk, t.item(p), `{"role":"assistant","content":`+string(saga.Encode(content))+`}`)
	}
	p.zeros = strings.Repeat("0", int(crc32.ChecksumIEEE([]byte(content))%3))
	p.tool(t, path, content, then)
}

// past is the context of one who does not wait.
var past = func() context.Context {
	c, stop := context.WithCancel(ctx)
	stop()
	return c
}()

// listen returns what the agent has got of a response before its end was in the journal. The agent
// makes the tool call in it at once, as some client packages do. Its connection stays open.
func (p *agentProcess) listen(t *modelTask, found *ask.Recorded) (early string) {
	s, a := p.a.s, p.a
	stream := p.streams[found.Path]
	if stream == nil {
		stream = s.relay.Join(idempotency.Key(a.session, found.Path, journal.Do, 0))
		p.streams[found.Path] = stream
	}
	part, _, _ := stream.Next(past, 0)
	early = string(part)
	if !found.Ended {
		if strings.Contains(early, "finish_reason") {
			s.violate(a.session, "27: the end of the answer to %s has reached the agent, and is not in the journal", found.Path)
		}
		p.tool(t, found.Path, early, func() {})
	}
	return early
}

// tool makes the call that is in an answer, unless the process has made it.
func (p *agentProcess) tool(t *modelTask, path, content string, then func()) {
	order := toolCall(content)
	if order == "" || t.action == "" || p.ran[path] {
		then()
		return
	}
	p.ran[path] = true
	p.call(path, saga.CallAction{Action: t.action, Input: json.RawMessage(`{"order":"` + order + `"}`)}, 0, then)
}

// toolOrder begins the orders in tool calls. No other call has such an order.
const toolOrder = "t"

// toolCall returns the order in the tool call of an answer; "" if it has none.
func toolCall(content string) (order string) {
	_, rest, _ := strings.Cut(content, `"arguments":"`)
	order, _, _ = strings.Cut(rest, `"`)
	return order
}

// contents returns a function that finds a session's contents by their hashes.
func (s *sim) contents(session uuid.UUID) func(hash string) ([]byte, error) {
	return func(hash string) ([]byte, error) {
		if content := s.content(session, hash); content != "" {
			return []byte(content), nil
		}
		return nil, ask.ErrErased
	}
}

// content returns a content of a session; "" if there is none.
func (s *sim) content(session uuid.UUID, hash string) string {
	sum, err := hex.DecodeString(hash)
	if err != nil || len(sum) != 32 {
		return ""
	}
	blobs, err := s.store.Blobs(ctx, session, [][32]byte{[32]byte(sum)})
	if err != nil {
		panic(err)
	}
	if len(blobs) == 0 {
		if h, err := s.store.Saga(ctx, session); err == nil && !h.ForkedFrom.IsNil() {
			return s.content(h.ForkedFrom, hash) // the contents with which a fork begins stay its original's
		}
		return ""
	}
	content, err := ask.Unpack(blobs[0])
	if err != nil {
		return ""
	}
	return string(content)
}

// answer returns the answer of a model, which is another one to each request. The provider bills
// it.
func (w *theWorld) answer(send machine.Send) saga.Answer {
	w.billed[send.Key]++
	w.n++
	if q, _, _, err := ask.Open(models, send.Request); err != nil {
		panic(err)
	} else if q.Usage { // it asks for a stream
		return w.streamed(send)
	}
	content := fmt.Sprint("answer ", w.n, " to ", send.Path)
	m := ask.Meaning{ID: content, Model: "m", Finish: "stop", Whole: true}
	if w.s.aside.IntN(3) > 0 { // otherwise the cost is not known
		m.Tokens = &llm.Tokens{Input: 5, Output: 3}
	}
	if w.s.aside.IntN(8) == 0 {
		m.Whole = false // it was cut
	}
	if m.Whole {
		w.answers[send.Key] = content
	}
	return saga.Answer{Sent: true, Status: 200, Headers: map[string]string{"content-type": "application/json"}, Body: saga.Encode(m), Content: []byte(content)}
}

// eventStream is the Content-Type of a streamed answer.
const eventStream = "text/event-stream"

// streamed returns an answer as a stream, with a tool call.
func (w *theWorld) streamed(send machine.Send) saga.Answer {
	const usage = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}`
	events := []string{
		fmt.Sprintf(`{"id":"a%d","model":"m","choices":[{"delta":{"content":"answer to %s"}}]}`, w.n, send.Path),
		fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"%s%d"}}]}}]}`, toolOrder, w.n),
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
		usage, // which the agent has not asked for
		`[DONE]`,
	}
	var all, heard string
	for _, data := range events {
		event := "data: " + data + "\n\n"
		if data != usage {
			heard += event
		} else if w.s.aside.IntN(3) == 0 {
			continue // the cost is not known
		}
		all += event
	}
	if w.s.aside.IntN(8) == 0 { // it is cut
		all = all[:w.s.aside.IntN(strings.Index(all, "finish_reason"))]
	} else {
		w.answers[send.Key] = heard
	}
	return saga.Answer{Sent: true, Status: 200, Headers: map[string]string{"content-type": eventStream}, Content: []byte(all)}
}

// stream reads the response of a model as package ask/client does, and passes on what may leave.
// then gets it when it has ended.
func (n *node) stream(send machine.Send, a saga.Answer, then func(saga.Answer)) {
	if a.Headers["content-type"] != eventStream {
		then(a)
		return
	}
	q, route, _, err := ask.Open(models, send.Request)
	if err != nil {
		panic(err)
	}
	out, meaning, in := n.s.relay.Join(send.Key), ask.NewReading(route, q), bytes.NewReader(a.Content)
	a.Content = nil
	if err := out.Copy(in, eventStream, meaning, func(raw []byte, drop bool) ([]byte, bool) {
		if !drop {
			a.Content = append(a.Content, raw...)
		}
		return raw, true
	}); err != nil && !errors.Is(err, io.EOF) {
		panic(err)
	}
	a.Body = saga.Encode(meaning.Meaning)
	n.later(n.s.aside.between(0, 300*time.Millisecond), func() {
		n.s.relay.Leave(send.Key, out)
		then(a)
	})
}

// orderOf returns the order in the input of a new call; "" if it has none.
func orderOf(r journal.Record) string {
	if r.Kind != journal.Called {
		return ""
	}
	var d saga.CalledData
	mustRead(r, &d)
	var input struct{ Order string }
	if d.What == saga.ActionCall {
		_ = json.Unmarshal(d.Input, &input)
	}
	return input.Order
}

// isModel reports whether a request goes to a provider.
func isModel(u *url.URL) bool { return u.Path == "/llm/chat/completions" }

// checkModels checks that a question was sent at most once, that the store has the content of each
// recorded question and answer, and that the agent has made no tool call before the answer with it
// was in the journal.
func (s *sim) checkModels(id uuid.UUID, records []journal.Record) {
	index := ask.NewIndex()
	var paths []string
	said := make(map[string]bool) // the orders in tool calls
	lost := s.contentLost(id)
	for i := range records {
		if err := index.Add(&records[i]); err != nil {
			panic(err)
		}
		for _, r := range inherited(records[i : i+1]) {
			if found := index.At(r.Path); found != nil && found.Output != nil {
				said[toolCall(s.content(id, found.Output.Answer))] = true
			}
		}
		if found := index.At(records[i].Path); found != nil && records[i].Kind == journal.Called {
			paths = append(paths, found.Path)
		} else if found != nil && found.Output != nil {
			said[toolCall(s.content(id, found.Output.Answer))] = true
		}
		if order := orderOf(records[i]); strings.HasPrefix(order, toolOrder) && !said[order] && !lost {
			s.violate(id, "27: %s was called as a model said in an answer that was not in the journal", records[i].Path)
		}
	}
	for _, path := range paths {
		found := index.At(path)
		if n := s.world.billed[idempotency.Key(id, path, journal.Do, 0)]; n > 1 {
			s.violate(id, "27: the question %s was sent %d times", path, n)
		}
		body, err := found.Question.Assemble(s.contents(id))
		if (err != nil || len(body) == 0) && !lost {
			s.violate(id, "27: the contents of the question %s are not stored: %v", path, err)
		}
	}
}
