package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/export"
	"recourse/internal/cli/remote"
	"recourse/internal/sessionreplay"
	"recourse/internal/test/buffer"
)

// replays is a server with sessions to replay.
type replays struct {
	*serving
	world  *world.Server
	models *llmstub.Server
	agent  string // a program that does what its variable SCRIPT says
}

func replaysOn(t *testing.T, fault func(llmstub.Call) llmstub.Fault) *replays {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "goagent")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", agent, "../../internal/test/examples/goagent").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	w, env := worldFor(t)
	models, err := llmstub.New(llmstub.Config{APIKey: "sk-provider", Fault: fault}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { models.Close() })
	env = append(env, "OPENAI_BASE_URL="+models.URL+"/v1", "OPENAI_API_KEY=sk-provider", "ANTHROPIC_BASE_URL="+models.URL, "ANTHROPIC_API_KEY=sk-provider")
	s := serve(t, env, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", agentActions)
	return &replays{s, w, models, agent}
}

// does runs the agent with a script by a command, and returns what it prints.
func (s *replays) does(t *testing.T, script string, args ...string) result {
	t.Helper()
	var out, errOut buffer.Buffer // the agent shares stderr with the command
	env := slices.Concat(s.env, []string{"SCRIPT=" + script})
	m := Main{Args: append(args, "--", s.agent, "script"), Env: env, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut}
	code := m.Run(t.Context())
	return result{code, out.String(), errOut.String()}
}

// records runs a session, and returns its id and what the agent has printed.
func (s *replays) records(t *testing.T, script string, code int, flags ...string) (id, out string) {
	t.Helper()
	r := s.does(t, script, append([]string{"agent", "run", "--name", "desk", "--actions", "look,refund,mail", "--restarts", "0"}, flags...)...)
	if r.code != code {
		t.Fatalf("recording: exit %d\n%s%s", r.code, r.out, r.errOut)
	}
	_, rest, _ := strings.Cut(r.errOut, "recourse: session ")
	id, _, _ = strings.Cut(rest, " ")
	return id, r.out
}

// sent counts what has left the server: requests to the mock services, and to the model.
func (s *replays) sent(t *testing.T) (n int) {
	t.Helper()
	resp, err := http.Get(s.models.URL + "/bills")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var bills struct{ Bills []json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&bills); err != nil {
		t.Fatal(err)
	}
	return len(bills.Bills) + len(s.world.Ledger().Requests())
}

func (s *replays) journal(t *testing.T, id string) string {
	t.Helper()
	return ok(t, s.env, "journal", id, "-o", "json")
}

const (
	asksTwice = `{"ask": "What is due?"}, {"ask": "Write a note", "stream": true}, {"ask": "What is due?"}`
	anthropic = `{"body": {"model": "claude-small", "max_tokens": 50, "system": "You are brief.", "messages": [{"role": "user", "content": "Which first?"}]}}`
	looks     = `{"call": "look", "input": {"order": "o-1"}}, {"call": "look", "input": {"order": "o-1"}}`
	refunds   = `{"call": "refund", "input": {"order": "o-1", "amount": 1910}}, {"tool": "mail", "input": {"to": "ann@shop.example", "order": "o-1"}}`
	reports   = `{"own": "report", "input": {"page": 1}}`
	wrong     = `{"call": "refund", "input": {"order": "o-1"}}, {"call": "refund", "input": {"order": "o-1", "amount": 5}}`
)

func script(parts ...string) string { return "[" + strings.Join(parts, ", ") + "]" }

// The agent that has made a session makes the same requests again, gets the same responses, and
// nothing is sent or written.
func TestAgentReplaySame(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	all := script(asksTwice, looks, refunds, wrong, reports, anthropic)
	id, out := s.records(t, all, cli.OK, "--input", `{"ticket": 17}`)
	before, sent := s.journal(t, id), s.sent(t)
	r := s.does(t, all, "agent", "replay", id[:13])
	if r.code != cli.OK || !strings.Contains(r.errOut, "the same: 4 requests to models, 4 calls, 1 own step of session "+id+"\n") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	// The own step is not done again.
	if want := strings.Replace(out, "does report\n", "", 1); r.out != want || want == out {
		t.Errorf("the agent was told\n%snot\n%s", r.out, want)
	}
	if s.journal(t, id) != before || s.sent(t) != sent {
		t.Error("the replay has written or sent something")
	}
}

// The first difference is found, and said with its place.
func TestAgentReplayDifferences(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	id, _ := s.records(t, script(asksTwice, looks, refunds, reports, anthropic), cli.OK)
	for name, test := range map[string]struct {
		script string
		code   int
		says   string
	}{
		"prompt": {script(strings.Replace(asksTwice, "a note", "a letter", 1), looks, refunds, reports, anthropic), cli.Failed,
			"a request to openai/chat/completions (small) differs from llm[1] at /messages/0/content\n  was \"Write a note\"\n  now \"Write a letter\""},
		"Anthropic's prompt": {script(asksTwice, looks, refunds, reports, strings.Replace(anthropic, "brief", "terse", 1)), cli.Failed, "differs from llm[3] at /system\n"},
		"another ask":        {script(asksTwice, `{"ask": "What is due?"}`, looks, refunds, reports, anthropic), cli.Failed, "a request to openai/chat/completions (small), where the recorded session has look[0]"},
		"ask at the end":     {script(asksTwice, looks, refunds, reports, anthropic, `{"ask": "Done?"}`), cli.Failed, "a request to openai/chat/completions (small), and has already made all"},
		"input":              {script(asksTwice, looks, strings.Replace(refunds, "1910", "1909", 1), reports, anthropic), cli.Failed, "the input of a call of refund differs from that of refund[0] at /amount\n  was 1910\n  now 1909"},
		"order":              {script(asksTwice, looks, strings.ReplaceAll(refunds, "o-1", "o-2"), reports, anthropic), cli.Failed, "refund[0] at /order\n  was \"o-1\"\n  now \"o-2\""},
		"tool":               {script(asksTwice, looks, strings.Replace(refunds, "ann@", "bob@", 1), reports, anthropic), cli.Failed, "mail[0] at /to\n"},
		"id":                 {script(asksTwice, looks, strings.Replace(refunds, `{"call"`, `{"once": "a", "call"`, 1), reports, anthropic), cli.Failed, "a call of refund has the input of refund[0], but another id"},
		"another call":       {script(asksTwice, looks, `{"call": "look", "input": {"order": "o-1"}}`, refunds, reports, anthropic), cli.Failed, `the agent calls look with {"order":"o-1"}, where the recorded session has refund[0] {"amount":1910,"order":"o-1"}`},
		"own input":          {script(asksTwice, looks, refunds, strings.Replace(reports, "1", "2", 1), anthropic), cli.Failed, "the input of the step own.report differs at /page\n  was 1\n  now 2"},
		"own":                {script(asksTwice, looks, refunds, strings.Replace(reports, "report", "other", 1), anthropic), cli.Failed, "the agent begins the step own.other, where the recorded session has own.report"},
		"undo":               {script(asksTwice, looks, refunds, `{"undo": "refund[0]"}`, reports, anthropic), cli.Failed, "the agent undoes refund[0], which the recorded session does not"},
		"fewer":              {script(asksTwice, looks, refunds), cli.Failed, "the agent has ended without own.report, and 1 more of the recorded session"},
		"fewer asks":         {script(asksTwice, looks, refunds, reports), cli.Failed, "the agent has ended without llm[3] (anthropic/v1/messages, claude-small)"},
		"nothing":            {`[{"exit": 0}]`, cli.Failed, "the agent has ended without llm[0]"},
		"exit":               {script(asksTwice, looks, refunds, reports, anthropic, `{"exit": 9}`), cli.Failed, "and then exited with 9"},
		"order of requests":  {script(anthropic, reports, refunds, looks, asksTwice), cli.OK, "the same"},
		"refused":            {script(wrong[:strings.Index(wrong, "}}")+2], asksTwice, looks, refunds, reports, anthropic), cli.OK, "the same"},
	} {
		r := s.does(t, test.script, "agent", "replay", id)
		if r.code != test.code || !strings.Contains(r.errOut, test.says) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s\n%s", name, r.code, test.code, test.says, r.errOut, r.out)
		}
	}
	if n := len(s.world.Ledger().Effects()); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// A session that was not committed is replayed as far as its journal goes.
func TestAgentReplayUnfinished(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	const (
		large = `{"call": "refund", "input": {"order": "o-2", "amount": 20000}, "now": true}`
		more  = `{"ask": "What next?"}`
	)
	waits, _ := s.records(t, script(looks, large, `{"exit": 1}`), cli.Failed, "--key", "waits")
	aborted, _ := s.records(t, script(looks, refunds, `{"exit": 76}`), 4, "--key", "aborts")
	undone, _ := s.records(t, script(`{"call": "refund", "input": {"order": "o-3", "amount": 5}}, {"undo": "refund[0]"}, {"call": "refund", "input": {"order": "o-3", "amount": 5}}`), cli.OK)
	for name, test := range map[string]struct {
		id, script string
		code       int
		says       string
	}{
		"open call":          {waits, script(looks, large, more), cli.OK, "the same: 3 calls of session " + waits + ", as far as its journal goes: refund[0] has not ended in it"},
		"waits for it":       {waits, script(looks, strings.Replace(large, `, "now": true`, "", 1), more), cli.OK, "has not ended"},
		"other open call":    {waits, script(looks, strings.Replace(large, "20000", "20001", 1)), cli.Failed, "refund[0] at /amount"},
		"before it":          {waits, script(more, looks, large), cli.Failed, "where the recorded session has look[0]"},
		"aborted":            {aborted, script(looks, refunds, `{"exit": 76}`), cli.OK, "the same: 4 calls of session " + aborted + ", until it was aborted"},
		"aborted, goes on":   {aborted, script(looks, refunds, more), cli.OK, "until it was aborted"},
		"aborted, otherwise": {aborted, script(looks, strings.Replace(refunds, "1910", "5", 1)), cli.Failed, "refund[0] at /amount"},
		"undone":             {undone, script(`{"call": "refund", "input": {"order": "o-3", "amount": 5}}, {"undo": "refund[0]"}, {"call": "refund", "input": {"order": "o-3", "amount": 5}}`), cli.OK, "the same: 2 calls"},
		"not undone":         {undone, script(`{"call": "refund", "input": {"order": "o-3", "amount": 5}}, {"call": "refund", "input": {"order": "o-3", "amount": 5}}`), cli.Failed, "without the undo of refund[0]"},
	} {
		r := s.does(t, test.script, "agent", "replay", test.id)
		if r.code != test.code || !strings.Contains(r.errOut, test.says) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s\n%s", name, r.code, test.code, test.says, r.errOut, r.out)
		}
	}
}

// The agent that is replayed sees what the session's processes saw, one after the other: failures
// of the model, too.
func TestAgentReplayLives(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, func(c llmstub.Call) llmstub.Fault {
		if bytes.Contains(c.Body, []byte("Broken")) {
			return llmstub.Fault{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded"}
		}
		return llmstub.Fault{}
	})
	const broken = `{"ask": "Broken?"}, {"ask": "Broken?"}`
	whole := script(asksTwice, looks, broken, refunds, reports)
	s.records(t, script(asksTwice, looks, broken, `{"exit": 9}`), cli.Failed, "--key", "lives")
	id, out := s.records(t, whole, cli.OK, "--key", "lives")
	r := s.does(t, whole, "agent", "replay", id)
	out = strings.ReplaceAll(strings.ReplaceAll(out, "does report\n", ""), "succeeded true", "succeeded false")
	if r.code != cli.OK || !strings.Contains(r.out, "429") || strings.Count(r.out, "succeeded") != strings.Count(out, "succeeded") {
		t.Errorf("exit %d: %s\n%s\n%s", r.code, r.errOut, r.out, out)
	}

	// What an earlier life has asked for after the place of a divergence need not be asked for.
	s.records(t, script(`{"ask": "It is 10:00."}`, `{"ask": "Then?"}`, `{"exit": 9}`), cli.Failed, "--key", "diverges")
	now := script(`{"ask": "It is 11:00."}`, looks)
	id, _ = s.records(t, now, cli.OK, "--key", "diverges")
	if r := s.does(t, now, "agent", "replay", id); r.code != cli.OK {
		t.Errorf("after a divergence: exit %d: %s", r.code, r.errOut)
	}
	if r := s.does(t, strings.Replace(now, "11", "12", 1), "agent", "replay", id); r.code != cli.Failed || !strings.Contains(r.errOut, "at /messages/0/content") {
		t.Errorf("after a divergence, otherwise: exit %d: %s", r.code, r.errOut)
	}
}

// An agent is replayed on a fork, too, with the answers that the fork has from its original. It
// need not ask for these.
func TestAgentReplayFork(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	const more = `{"ask": "What next?"}, {"call": "look", "input": {"order": "o-7"}}`
	before := []string{asksTwice, looks, refunds, anthropic}
	id, _ := s.records(t, script(before...), cli.OK)
	fork := id
	for range 2 { // a fork, and a fork of the fork
		var v struct{ ID string }
		if err := json.Unmarshal([]byte(ok(t, s.env, "sessions", "fork", fork, "-o", "json")), &v); err != nil {
			t.Fatal(err)
		}
		if r := s.does(t, `[]`, "agent", "replay", v.ID); r.code != cli.Failed || !strings.Contains(r.errOut, "asked for anything") {
			t.Errorf("a fork in which no agent has run: exit %d: %s", r.code, r.errOut)
		}
		fork = v.ID
		if r := s.does(t, script(slices.Concat(before, []string{more})...), "agent", "run", "--session", fork, "--restarts", "0"); r.code != cli.OK {
			t.Fatalf("in the fork: exit %d: %s", r.code, r.errOut)
		}
		before = append(before, more)
	}
	whole := script(before...)
	for name, test := range map[string]struct {
		script string
		code   int
		says   string
	}{
		"same":    {whole, cli.OK, "the same: 6 requests to models, 6 calls of session " + fork + "\n"},
		"its own": {script(more, more), cli.OK, "the same"},
		"prompt":  {strings.Replace(whole, "What next?", "And now?", 2), cli.Failed, "differs from llm["},
		"call":    {strings.ReplaceAll(whole, "o-7", "o-8"), cli.Failed, "/order\n  was \"o-7\"\n  now \"o-8\""},
		"before":  {strings.Replace(whole, "a note", "a letter", 1), cli.Failed, "differs from llm[1] at /messages/0/content\n  was \"Write a note\"\n  now \"Write a letter\""},
		"fewer":   {script(before[:4]...), cli.Failed, "the agent has ended without"},
	} {
		if r := s.does(t, test.script, "agent", "replay", fork); r.code != test.code || !strings.Contains(r.errOut, test.says) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s\n%s", name, r.code, test.code, test.says, r.errOut, r.out)
		}
	}
}

// Who may read a session may replay it, as long as it has its contents.
func TestAgentReplayAccess(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	id, _ := s.records(t, script(asksTwice, looks), cli.OK)
	all := script(asksTwice, looks)
	if r := s.does(t, all, "agent", "replay", "--server", "http://127.0.0.1:1", id); r.code != cli.Unreachable {
		t.Errorf("no server: exit %d: %s", r.code, r.errOut)
	}
	if r := s.does(t, all, "agent", "replay", "00000000-0000-4000-8000-000000000000"); r.code != cli.NotFound {
		t.Errorf("no session: exit %d: %s", r.code, r.errOut)
	}
	empty, _ := s.records(t, `[{"exit": 0}]`, cli.OK)
	if r := s.does(t, all, "agent", "replay", empty); r.code != cli.Failed || !strings.Contains(r.errOut, "asked for anything") {
		t.Errorf("an empty session: exit %d: %s", r.code, r.errOut)
	}
	if n := s.status(t, http.MethodDelete, "/v1/sessions/"+id+"/content"); n != http.StatusNoContent {
		t.Fatalf("erase: %d", n)
	}
	if r := s.does(t, all, "agent", "replay", id); r.code != cli.Failed || !strings.Contains(r.errOut, "the answer to llm[0] was erased") {
		t.Errorf("erased: exit %d: %s", r.code, r.errOut)
	}
}

// Of a session that stores no prompts, the answers are found, and a difference has no place.
func TestAgentReplayWithoutPrompts(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	id := s.opens(t, "desk", `, "keep": "answers"`)
	secret := api.NewSecret()
	post := func(key, part, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+remote.SessionPath(id, part), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", part, resp.Status)
		}
	}
	post("", "attach", `{"secret": "`+secret+`"}`)
	token := api.Token(uuid.FromStringOrNil(id), secret)
	agent := exec.CommandContext(t.Context(), s.agent, "script")
	agent.Env = []string{"SCRIPT=" + script(asksTwice), "RECOURSE_URL=" + s.url, "RECOURSE_SESSION=" + id, "RECOURSE_TOKEN=" + token, "RECOURSE_LIFE=1",
		"OPENAI_BASE_URL=" + s.url + "/llm/openai/v1", "OPENAI_API_KEY=" + token}
	if out, err := agent.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	post(token, "commit", "{}")
	if r := s.does(t, script(asksTwice), "agent", "replay", id); r.code != cli.OK {
		t.Errorf("the same: exit %d: %s", r.code, r.errOut)
	}
	if r := s.does(t, script(strings.Replace(asksTwice, "a note", "a letter", 1)), "agent", "replay", id); r.code != cli.Failed || !strings.Contains(r.errOut, "differs from llm[1], whose body is not stored") {
		t.Errorf("another prompt: exit %d: %s", r.code, r.errOut)
	}
}

// actionFiles is a sessionreplay.Source that has the refund agent's actions.
type actionFiles struct{}

// Action implements sessionreplay.Source.
func (actionFiles) Action(_ context.Context, name string, _ int) ([]byte, error) {
	return os.ReadFile(filepath.Join(agentActions, name+".yaml"))
}

// Ask implements sessionreplay.Source.
func (actionFiles) Ask(context.Context, string) (request, answer []byte, _ error) {
	return nil, nil, errors.New("no model was asked")
}

// An agent that waits for the end of a call that the journal does not have, although it has asked
// for less than the recorded session, is not waited for.
func TestAgentReplayIsQuiet(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	const large = `{"call": "refund", "input": {"order": "o-2", "amount": 20000}, "now": true}`
	id, _ := s.records(t, script(large, looks, `{"exit": 1}`), cli.Failed, "--key", "waits")
	ex, err := export.Read(strings.NewReader(s.journal(t, id)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sessionreplay.New(t.Context(), sessionreplay.Config{Session: ex.Saga, Records: ex.Records, Source: actionFiles{}, Quiet: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.Handler())
	defer server.Close()
	ask := func(token, method, path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	calls := remote.SessionPath(id, "calls")
	for _, no := range []struct{ token, method, path, body string }{
		{"wrong", "GET", calls, ""}, {"", "GET", calls, ""}, {"", "GET", "/v1/sagas", ""}, {"", "POST", "/v1/sessions", `{"name": "a", "actions": ["refund"]}`},
	} {
		if status := ask(no.token, no.method, no.path, no.body); status != http.StatusUnauthorized {
			t.Errorf("%s %s with the token %q: %d", no.method, no.path, no.token, status)
		}
	}
	// A call is open, so the session is not committed.
	for part, want := range map[string]int{"heartbeat": http.StatusOK, "commit": http.StatusConflict} {
		if status := ask(r.Token(), "POST", remote.SessionPath(id, part), "{}"); status != want {
			t.Errorf("%s: %d, want %d", part, status, want)
		}
	}
	if status := ask(r.Token(), "POST", calls, refundOf("o-2", 20000)); status != http.StatusAccepted {
		t.Errorf("the call: %d", status)
	}
	<-r.Over()
	found, err := r.Result()
	if err != nil || found.Difference == nil || found.Open != "refund[0]" || !strings.Contains(found.Difference.Detail, "without look[0]") {
		t.Errorf("%+v, %v", found, err)
	}
}

// brokenSource panics when it is asked for contents.
type brokenSource struct{ actionFiles }

// Ask implements sessionreplay.Source.
func (brokenSource) Ask(context.Context, string) (request, answer []byte, _ error) { panic("broken") }

// A replay ends if its server panics: the agent would repeat the request forever.
func TestAgentReplayPanics(t *testing.T) {
	t.Parallel()
	s := replaysOn(t, nil)
	id, _ := s.records(t, script(anthropic), cli.OK)
	ex, err := export.Read(strings.NewReader(s.journal(t, id)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sessionreplay.New(t.Context(), sessionreplay.Config{Session: ex.Saga, Records: ex.Records, Source: brokenSource{}})
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct{ Body json.RawMessage }
	if err := json.Unmarshal([]byte(anthropic), &recorded); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/llm/anthropic/v1/messages", bytes.NewReader(recorded.Body))
	req.Header.Set("X-Api-Key", r.Token())
	req.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	r.Handler().ServeHTTP(response, req)
	select {
	case <-r.Over():
	default:
		t.Errorf("the replay goes on after the response %d %s", response.Code, response.Body)
	}
	if _, err := r.Result(); err == nil || !strings.Contains(err.Error(), "panic: broken") {
		t.Errorf("the result: %v", err)
	}
}
