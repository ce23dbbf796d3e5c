package examples

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"strings"

	"recourse/api/client"
	"recourse/examples/llmstub"
	"recourse/examples/world"
)

var tea = map[string]any{"topic": "tea", "reviewer": "ada@example.com"}

var published = map[string]int{"cms publish": 1}

const (
	report         = `{"page":"https://cms.example/tea"}`
	publishedEvent = "com.acme.research.published"
	// completions is the number of completions without faults: a plan, twelve summaries, three
	// views, a draft, its critique, and a revision.
	completions = 1 + 12 + 3 + 3
)

var research = []play{
	{name: "plain", example: "research", input: tea, status: "succeeded", output: report, effect: published, events: []string{publishedEvent}, people: approving,
		check: func(s *scene, v *client.Saga, f *fetcher) {
			s.billed(v, "0.020", true)
			if pages, again := f.pages(s.t); pages != 12 || again > 0 {
				s.t.Errorf("%d pages were fetched, with %d repetitions", pages, again)
			}
			if n := len(s.model.Bills()); n != completions {
				s.t.Errorf("%d completions, want %d", n, completions)
			}
		}},
	{name: "everybody is busy", example: "research", input: tea, status: "succeeded", output: report, effect: published, events: []string{publishedEvent}, people: approving,
		model: busy,
		fetch: func() func(string, int) error {
			return func(url string, times int) error {
				if strings.HasSuffix(url, "/2") && times == 1 {
					return client.Retryable(errors.New("the page is slow"))
				}
				if strings.HasSuffix(url, "/3") && times == 1 {
					return client.InDoubt(errors.New("it may have been fetched"))
				}
				return nil
			}
		},
		faults: []world.Rule{
			{Match: world.Match{PathPrefix: "/search"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 429, RetryAfter: "1"}},
			{Match: world.Match{PathPrefix: "/search"}, Times: 1, Do: world.Do{After: world.FaultDrop}},
			onPath("/cms", 1, world.Do{Before: world.FaultStatus, Status: 503}),
			onPath("/cms", 1, world.Do{After: world.FaultDrop}),
		},
		check: func(s *scene, v *client.Saga, f *fetcher) {
			s.billed(v, "0.025", false) // one of six searches got no response, so its cost stays reserved
			if pages, again := f.pages(s.t); pages != 12 || again == 0 {
				s.t.Errorf("%d pages were fetched, with %d repetitions", pages, again)
			}
		}},
	{name: "a page cannot be read", example: "research", input: tea, status: "succeeded", output: report, effect: published, events: []string{publishedEvent}, people: approving,
		fetch: func() func(string, int) error {
			return func(url string, _ int) error {
				if strings.HasSuffix(url, "/home") {
					return client.Refuse("not_found", "there is no such page")
				}
				return nil
			}
		},
		check: func(s *scene, v *client.Saga, _ *fetcher) {
			var view struct {
				Output []struct{ URL, Summary string }
			}
			s.get("/v1/sagas/"+v.ID+"/steps/pages", &view)
			if len(view.Output) != 11 {
				s.t.Errorf("%d pages are left", len(view.Output))
			}
			s.billed(v, "0.020", true)
		}},
	{name: "too few pages", example: "research", input: tea, status: "failed", reason: "step_failed too_few failed",
		fetch: func() func(string, int) error {
			return func(url string, _ int) error {
				if strings.HasSuffix(url, "/home") || strings.HasSuffix(url, "/queries%201/1") {
					return nil
				}
				return client.Refuse("not_found", "there is no such page")
			}
		},
		check: func(s *scene, v *client.Saga, _ *fetcher) {
			if v.Reason.Title != "Only 2 sources could be read" {
				s.t.Errorf("the reason is %+v", v.Reason)
			}
			s.remains(v, 2)
		}},
	{name: "the budget is raised", example: "research", input: tea, edit: []string{"3.00 USD", "0.07 USD"},
		status: "succeeded", output: report, effect: published, events: []string{publishedEvent},
		people: func(s *scene, id string) {
			e := s.asked("budget")
			status, _, b := s.call("PATCH", "/v1/sagas/"+id, `{"budget": "3.00 USD", "reason": "it is worth it"}`, "If-Match", e.ETag)
			if status != http.StatusOK {
				s.t.Errorf("raise the budget: %d %s", status, b)
			}
			approving(s, id)
		},
		check: func(s *scene, v *client.Saga, _ *fetcher) { s.billed(v, "0.020", true) }},
	{name: "rejected", example: "research", input: tea, status: "failed", reason: "rejected approve rejected",
		people: func(s *scene, _ string) { s.decide(s.asked("approval"), "reject") }, check: fetched},
	{name: "nobody decides", example: "research", input: tea, edit: []string{"timeout: 72h", "timeout: 1s"}, status: "failed", reason: "step_failed approve approval_expired",
		check: fetched},
	{name: "it cannot be published", example: "research", input: tea, status: "failed", reason: "step_failed publish http_403",
		faults: []world.Rule{onPath("/cms", 0, status(403))}, people: approving, check: fetched},
}

// remains fails unless so many fetched pages and nothing else remain. `fetch` tasks have no
// compensation, and only the author knows that none is needed. So the saga is `failed`.
func (s *scene) remains(v *client.Saga, pages int) {
	s.t.Helper()
	var view struct{ Residual []struct{ Path string } }
	s.get("/v1/sagas/"+v.ID, &view)
	for _, r := range view.Residual {
		if !strings.HasPrefix(r.Path, "pages[") || !strings.HasSuffix(r.Path, ".fetch") {
			s.t.Errorf("%s remains", r.Path)
		}
	}
	if len(view.Residual) != pages {
		s.t.Errorf("%d pages remain, want %d", len(view.Residual), pages)
	}
}

// fetched fails unless all pages remain.
func fetched(s *scene, v *client.Saga, _ *fetcher) { s.remains(v, 12) }

// approving approves the report after it has checked what is shown.
func approving(s *scene, id string) {
	s.t.Helper()
	e := s.asked("approval")
	var v struct{ Cost struct{ Spent string } }
	s.get("/v1/sagas/"+id, &v)
	var shown struct {
		Report string
		Spent  json.Number
	}
	if err := json.Unmarshal(e.Shown, &shown); err != nil || shown.Report == "" || shown.Spent.String() != v.Cost.Spent {
		s.t.Errorf("shown is %s, spent %s; %v", e.Shown, v.Cost.Spent, err)
	}
	if status, b := s.decide(e, "approve"); status != http.StatusOK {
		s.t.Errorf("approve: %d %s", status, b)
	}
}

// busy makes every fourth completion fail, each time in another way.
func busy() func(llmstub.Call) llmstub.Fault {
	return func(c llmstub.Call) llmstub.Fault {
		if c.Number%4 != 1 {
			return llmstub.Fault{}
		}
		kinds := []llmstub.Fault{{Status: 503}, {Status: 429, RetryAfter: "1"}, {Status: 500, Usage: true}}
		// Only summaries are retried after these errors.
		if !strings.Contains(string(c.Body), "Summarise for a report") {
			kinds = append(kinds, llmstub.Fault{Cut: 1, Usage: true})
		}
		return kinds[c.Number/4%len(kinds)]
	}
}

// billed compares the costs of the saga with the model's bills and other costs, to the last digit.
// If settled, nothing may be reserved.
func (s *scene) billed(v *client.Saga, other string, settled bool) {
	s.t.Helper()
	var view struct {
		Cost struct{ Spent, Reserved string }
	}
	s.get("/v1/sagas/"+v.ID, &view)
	want := s.bills()
	want.Add(want, rat(other))
	if rat(view.Cost.Spent).Cmp(want) != 0 || settled != (rat(view.Cost.Reserved).Sign() == 0) {
		s.t.Errorf("spent %s and reserved %s, but the bills come to %s", view.Cost.Spent, view.Cost.Reserved, want.FloatString(9))
	}
}

// bills returns the cost of the completions.
func (s *scene) bills() *big.Rat {
	sum := new(big.Rat)
	for _, b := range s.model.Bills() {
		if b.Billed {
			p := prices[b.Model]
			sum.Add(sum, new(big.Rat).Mul(big.NewRat(int64(b.Input), 1e6), rat(p[0])))
			sum.Add(sum, new(big.Rat).Mul(big.NewRat(int64(b.Output), 1e6), rat(p[1])))
		}
	}
	return sum
}

func rat(decimal string) *big.Rat {
	r, ok := new(big.Rat).SetString(decimal)
	if !ok {
		panic("not a decimal: " + decimal)
	}
	return r
}
