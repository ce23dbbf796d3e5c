package examples

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

const (
	bookingAgent = "../../../examples/agents/booking"
	bookingTrips = 4 // in each session
	callsOfTrip  = 3 // a flight, a hotel and a mail
	// The model asks for all flights and hotels at once, then for all mails, and then it is done.
	asksAtOnce = 3
)

// bookingClient is a way to run the booking agent.
type bookingClient struct {
	name string
	args []string
}

// bookingClients are all ways. The first needs only a few packages: `make test` runs it alone.
var bookingClients = []bookingClient{
	{"openai, chat, streamed", []string{"openai.ts", "stream"}},
	{"openai, chat", []string{"openai.ts", "chat"}},
	{"openai, responses", []string{"openai.ts", "responses"}},
	{"@openai/agents", []string{"agents.ts"}},
	{"ai, openai", []string{"ai.ts", "openai"}},
	{"ai, anthropic", []string{"ai.ts", "anthropic"}},
	{"@anthropic-ai/sdk", []string{"anthropic.ts"}},
	{"@anthropic-ai/sdk, streamed", []string{"anthropic.ts", "stream"}},
	{"@langchain/langgraph", []string{"langgraph.ts"}},
}

// booking is what happens to the sessions of one client.
type booking struct {
	client   bookingClient
	random   bool // the model gives another answer each time; all calls that it can make come at once
	sessions int
	kills    int // of the agent's process, in each session
	restarts int // of the server, which is killed
}

// outcome counts what has happened.
type outcome struct {
	booking
	bookings     int // flights and hotels
	sent         int // mails
	asks, billed int // different requests to the model, and those that were billed
	inFlight     int // requests to the model that were in flight when the server died
}

// wanted is what would happen without kills.
func (b booking) wanted() (bookings, letters, asks int) {
	trips := b.sessions * bookingTrips
	asks = b.sessions * (bookingTrips*callsOfTrip + 1)
	if b.random {
		asks = b.sessions * asksAtOnce
	}
	return 2 * trips, trips, asks
}

// mistakes lists how an outcome differs from the promise: each booking is made once, and each mail
// sent at most once, as the mail server ignores keys. Each request to the model is billed once, but
// for those that were in flight when the server died.
func (o outcome) mistakes() (list []string) {
	bookings, letters, asks := o.wanted()
	if o.bookings != bookings {
		list = append(list, fmt.Sprintf("%d bookings, want %d", o.bookings, bookings))
	}
	if o.sent > letters || o.restarts == 0 && o.sent != letters {
		list = append(list, fmt.Sprintf("%d mails, want %d", o.sent, letters))
	}
	if o.asks != asks {
		list = append(list, fmt.Sprintf("%d different requests to the model, want %d", o.asks, asks))
	}
	if most := o.asks + o.inFlight; o.billed > most {
		list = append(list, fmt.Sprintf("%d requests to the model were billed, want %d at most", o.billed, most))
	}
	return list
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		o    outcome
		want int
	}{
		{outcome{booking{sessions: 1}, 8, 4, 13, 13, 0}, 0},
		{outcome{booking{sessions: 1}, 8, 4, 13, 14, 0}, 1},
		{outcome{booking{sessions: 1, restarts: 1, random: true}, 8, 3, 3, 4, 1}, 0},
		{outcome{booking{sessions: 1, restarts: 1, random: true}, 8, 5, 3, 5, 0}, 2},
		{outcome{booking{sessions: 1}, 9, 3, 14, 14, 0}, 3},
	} {
		if got := tt.o.mistakes(); len(got) != tt.want {
			t.Errorf("%+v: %v, want %d", tt.o, got, tt.want)
		}
	}
}

// TestBookingAgents kills agents that were written with the packages of others, at random moments,
// and their server. Each effect is made once, even if the model would decide otherwise each time
// that it is asked.
//
// It runs one client; with RECOURSE_AGENT_CLIENTS=all, it runs all of them, with 20 kills each, and
// logs a table.
func TestBookingAgents(t *testing.T) {
	t.Parallel()
	clients, sessions, kills, restarts := bookingClients[:1], 1, 2, 1
	all := os.Getenv("RECOURSE_AGENT_CLIENTS") == "all"
	if all {
		clients, sessions, kills, restarts = bookingClients, 5, 4, 20
	}
	node := installPackages(t, bookingAgent, all)
	slots := make(chan struct{}, 2) // scenes at once: each has many processes
	var mu sync.Mutex
	var done []outcome
	t.Run("clients", func(t *testing.T) {
		for _, c := range clients {
			for _, random := range []bool{false, true} {
				name := c.name + map[bool]string{false: ", same answers", true: ", random answers"}[random]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					slots <- struct{}{}
					defer func() { <-slots }()
					o := booking{c, random, sessions, kills, restarts}.run(t, node)
					mu.Lock()
					defer mu.Unlock()
					done = append(done, o)
					for _, m := range o.mistakes() {
						t.Error(m)
					}
				})
			}
		}
	})
	t.Logf("\n%s", outcomes(done))
}

// outcomes returns a table, in the order of the clients.
func outcomes(list []outcome) string {
	slices.SortStableFunc(list, func(a, b outcome) int {
		at := func(o outcome) int {
			return slices.IndexFunc(bookingClients, func(c bookingClient) bool { return c.name == o.client.name })
		}
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(fmt.Sprint(a.random), fmt.Sprint(b.random)))
	})
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "client\tanswers\tkills, of the server\tbookings wanted/made\tmails\tasks wanted/distinct/billed\tin flight")
	for _, o := range list {
		bookings, letters, asks := o.wanted()
		fmt.Fprintf(w, "%s\t%s\t%d, %d\t%d/%d\t%d/%d\t%d/%d/%d\t%d\n", o.client.name, map[bool]string{false: "same", true: "random"}[o.random],
			o.sessions*o.kills, o.restarts, bookings, o.bookings, letters, o.sent, asks, o.asks, o.billed, o.inFlight)
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	return b.String()
}

// run runs the sessions, all at once, and kills their agents and the server.
func (b booking) run(t *testing.T, node string) outcome {
	model := llmstub.Config{OneByOne: !b.random, Fault: func(llmstub.Call) llmstub.Fault {
		return llmstub.Fault{Delay: 20 * time.Millisecond, Pace: 2 * time.Millisecond}
	}}
	if b.random {
		model.Seed = seed(t)
	}
	s := stageModel(t, databases["sqlite"](t), model)
	s.publishActions(bookingAgent)
	if err := s.world.AddFault(world.Rule{Do: world.Do{DelayMS: 40}}); err != nil {
		t.Fatal(err)
	}
	var runs []*agentRun
	for n := range b.sessions {
		r := &agentRun{name: "booking", key: fmt.Sprint("trips-", n), actions: "book-flight,book-hotel,send-mail", input: trips(n),
			// An agent that gives up while the server is away is run again, too.
			restarts: b.kills + 5*b.restarts,
			command:  []string{node, filepath.Join(bookingAgent, b.client.args[0])}}
		r.command = append(r.command, b.client.args[1:]...)
		s.runAgent(r)
		runs = append(runs, r)
	}
	var all sync.WaitGroup
	for n, r := range runs {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed(t), uint64(n)))
			for range b.kills {
				// A life prints a line at its beginning, one for each call, and one at its end.
				// Calls that come at once also end at once.
				lines := bookingTrips*callsOfTrip - 1
				if b.random {
					lines = 2 * bookingTrips
				}
				if err := r.kill(1+rng.IntN(lines), time.Duration(rng.IntN(50))*time.Millisecond); err != nil {
					t.Error(err)
					break
				}
			}
			if out, code := r.end(); code != 0 {
				t.Errorf("session %d: exit %d:\n%s", n, code, out)
			}
		})
	}
	part := b.sessions * bookingTrips * callsOfTrip / (b.restarts + 1)
	for n := range b.restarts {
		rng := rand.New(rand.NewPCG(seed(t), uint64(b.sessions+n)))
		after := part*n + 1 + rng.IntN(part)
		if _, err := s.world.Await(t.Context(), func(l world.Ledger) bool { return len(l.Requests()) >= after }); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(rng.IntN(50)) * time.Millisecond)
		s.restart()
	}
	all.Wait()
	l := s.world.Ledger()
	o := outcome{booking: b, bookings: len(l.Op("air", "book").Effects()) + len(l.Op("hotels", "reserve").Effects()), sent: len(l.Op("mail", "send").Effects())}
	asked := make(map[string]bool)
	for _, bill := range s.model.Bills() {
		if bill.Billed {
			o.billed++
			asked[bill.Hash] = true
		}
	}
	o.asks, o.inFlight = len(asked), s.interruptedAsks()
	if most := b.sessions * b.restarts; o.inFlight > most {
		t.Errorf("%d requests to the model were in flight when the server died, and %d sessions with one request at a time cannot have more than %d", o.inFlight, b.sessions, most)
	}
	if out, ok := s.verify(l); !ok {
		t.Errorf("verify: %s", out)
	}
	s.replay(runs[0])
	return o
}

// interruptedAsks returns how many requests to models were in flight when the server died,
// according to the journals.
func (s *scene) interruptedAsks() (n int) {
	var list struct {
		Data []struct{ ID string } `json:"data"`
	}
	s.get("/v1/sagas", &list)
	for _, v := range list.Data {
		for line := range strings.Lines(s.transcript(v.ID)) {
			var r journal.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				s.t.Fatal(err)
			}
			d, ok := history.DataOf[saga.OutcomeData](&r)
			if ok && r.Kind == journal.Outcome && strings.HasPrefix(r.Path, "llm[") && d.Error != nil && d.Error.Code == saga.Interrupted {
				n++
			}
		}
	}
	return n
}

// trips returns the input of a session.
func trips(session int) string {
	var list []map[string]any
	for n := range bookingTrips {
		list = append(list, map[string]any{"trip": fmt.Sprintf("t-%d-%d", session, n), "origin": "FRA", "destination": "LIS", "date": fmt.Sprintf("2027-03-%02d", n+1),
			"nights": n + 1, "email": fmt.Sprintf("guest-%d-%d@travel.example", session, n)})
	}
	b, err := json.Marshal(map[string]any{"trips": list})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// installing lets one test at a time install packages: some tests run agents of the same directory.
var installing sync.Mutex

// installPackages installs the packages of agents next to them, as their users do, or only those
// that the first client needs. It returns the path of Node, which is one of them.
func installPackages(t *testing.T, agent string, all bool) (node string) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	npm := func(args ...string) (string, error) {
		if !all {
			args = append(args, "--omit=dev")
		}
		cmd := exec.CommandContext(t.Context(), "npm", args...)
		cmd.Dir = agent
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	node, err := filepath.Abs(filepath.Join(agent, "node_modules", ".bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatalf("the agents of %s need npm: %v", agent, err)
	}
	if _, err := npm("ls"); err == nil {
		return node // they are installed, in the versions of package.json
	}
	if out, err := npm("ci", "--no-audit", "--no-fund"); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return node
}
