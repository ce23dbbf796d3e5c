package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Peer is a program that runs booking3: the engine, the floor, or a program of others.
type Peer interface {
	Name() string
	// Start starts it on its database, and returns when it takes sagas.
	Start(context.Context) (Running, error)
	// Stop ends it in its own time.
	Stop()
	// Kill stops it as a crash does.
	Kill()
	// Resumes reports whether it continues sagas after a crash.
	Resumes() bool
}

// Running says how a started peer is used.
type Running struct {
	PID  int
	Run  string // URL of a start that is answered at the saga's end
	Send string // URL of a start that is answered once it is durable
	// Live returns how many sagas have not ended.
	Live func(context.Context) (int, error)
}

// LiveSagas returns how many sagas of booking3 have not ended in an engine.
func LiveSagas(ctx context.Context, engine Process) (int, error) {
	st, err := statsOf(ctx, engine)
	return st.Live[Succeeds.Name()], err
}

// LiveAt requests the number of sagas that have not ended from a program of others.
func LiveAt(ctx context.Context, url string) (int, error) { return decoded[int](get(ctx, url)) }

// PeersConfig configures a comparison.
type PeersConfig struct {
	Peers     []Peer
	Reference string // the peer to which the others are compared
	Stub      Process
	Database  string // of the server that has the databases of all peers; it is a Postgres
	Clients   []int
	Warm      time.Duration // load before the first measurement of a started peer
	Each      time.Duration
	Rounds    int
	InFlight  int           // sagas in flight when a peer is killed; 0: none is
	Patience  time.Duration // how long a killed peer may take to end its sagas
	Progress  Progress
}

// PeersReport is the result of a comparison.
type PeersReport struct {
	Session
	Reference string
	Rates     []PeerRate
	Crashes   []PeerCrash
	Failed    map[string]error // by peer: why figures are missing
}

// PeerRate has the medians over the rounds of one peer; latencies are over all of its sagas.
type PeerRate struct {
	Name      string
	Clients   int
	PerSecond float64
	Lowest    float64 // of the rounds
	Highest   float64
	P50, P99  float64 // milliseconds
	Program   float64 // milliseconds of CPU per saga
	Database  float64
	WAL       float64 // bytes per saga
	Others    float64 // the most cores that other programs used during a round
	Again     int     // requests that were sent more than once, in all rounds
	Memory    int64   // MB, resident at the end
}

// PeerCrash is what followed a kill.
type PeerCrash struct {
	Name      string
	Sagas     int
	Listening time.Duration // from the start of the new process
	Ended     time.Duration // the same, until all had ended; 0: they did not
	Left      int           // sagas that had not ended when the patience was over
	Again     int           // requests whose effect existed: what a service without keys would do twice
	Twice     int           // effects that exist twice although the service honours keys
}

// Peers measures all peers in turns. Only one runs at a time, because an idle server uses CPU, too.
// A peer has no figures once it fails, for example because the effects of a round are not three for
// each saga; Peers itself fails if that is the reference.
func Peers(ctx context.Context, c PeersConfig) (*PeersReport, error) {
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	defer db.close(context.WithoutCancel(ctx))
	r := &PeersReport{Session: Session{Workload: Succeeds.Name(), Rounds: c.Rounds}, Reference: c.Reference, Failed: make(map[string]error)}
	all := make(map[string][]peerSample)
	for round := range c.Rounds {
		for i := range c.Peers {
			p := c.Peers[(i+round)%len(c.Peers)]
			err := r.try(ctx, p, func() error {
				c.Progress(round*len(c.Peers)+i, (c.Rounds+1)*len(c.Peers), fmt.Sprintf("round %d of %d, %s", round+1, c.Rounds, p.Name()))
				list, err := c.round(ctx, db, p)
				all[p.Name()] = append(all[p.Name()], list...)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for _, n := range c.Clients {
		for _, p := range c.Peers {
			if r.Failed[p.Name()] == nil {
				r.Rates = append(r.Rates, peerRate(p.Name(), n, all[p.Name()]))
			}
		}
	}
	for i, p := range c.Peers {
		if c.InFlight == 0 || !p.Resumes() {
			continue
		}
		err := r.try(ctx, p, func() error {
			c.Progress(c.Rounds*len(c.Peers)+i, (c.Rounds+1)*len(c.Peers), "kill -9, "+p.Name())
			crash, err := c.crash(ctx, p)
			if err == nil {
				r.Crashes = append(r.Crashes, crash)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	c.Progress(1, 1, "done")
	return r, nil
}

// try measures a peer unless it has failed.
func (r *PeersReport) try(ctx context.Context, p Peer, measure func() error) error {
	if _, failed := r.Failed[p.Name()]; failed {
		return nil
	}
	err := measure()
	if err != nil && (p.Name() == r.Reference || ctx.Err() != nil) {
		return fmt.Errorf("%s: %w", p.Name(), err)
	}
	if err != nil {
		r.Failed[p.Name()] = err
	}
	return nil
}

// warmClients are enough to warm up a peer.
const warmClients = 32

// peerSample is one measurement of one peer.
type peerSample struct {
	sample
	clients int
	again   int
	memory  int64
}

// round starts a peer, and measures it with each number of clients.
func (c *PeersConfig) round(ctx context.Context, db *database, p Peer) ([]peerSample, error) {
	at, err := p.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	warm := min(slices.Max(c.Clients), warmClients)
	if _, err := newPeerLoad(at.Run, warm).Closed(ctx, Succeeds, warm, c.Warm); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	var list []peerSample
	for _, n := range c.Clients {
		s, err := c.one(ctx, db, at, n)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// one measures a running peer with so many clients.
func (c *PeersConfig) one(ctx context.Context, db *database, at Running, clients int) (peerSample, error) {
	s := peerSample{clients: clients}
	if _, err := do(ctx, http.MethodPost, c.Stub.URL+"/reset", ""); err != nil {
		return s, err
	}
	before, err := db.peer(ctx, at, c.Stub)
	if err != nil {
		return s, err
	}
	others := func() time.Duration { return others(db, c.Stub) - cpuOfFamily(at.PID) }
	used, began := others(), time.Now()
	l := newPeerLoad(at.Run, clients)
	if s.took, err = l.Closed(ctx, Succeeds, clients, c.Each); err != nil {
		return s, err
	}
	l.client.CloseIdleConnections()
	s.others = round(float64(others()-used) / float64(time.Since(began)))
	after, err := db.peer(ctx, at, c.Stub)
	if err != nil {
		return s, err
	}
	s.used, s.memory = after.minus(before), residentOfFamily(at.PID)
	ledger, err := ledgerOf(ctx, c.Stub)
	if err != nil {
		return s, err
	}
	// A peer may send a request again when it likes: that is counted, and is no error.
	s.again, ledger.Again, ledger.Requests = ledger.Again, 0, ledger.Requests-ledger.Again
	return s, errors.Join(Succeeds.Check(ledger, len(s.took.All)), s.took.distinct())
}

// peer reads the meters of a peer, whose processes are a family.
func (d *database) peer(ctx context.Context, at Running, stub Process) (r reading, err error) {
	r.program, r.stub, r.database = cpuOfFamily(at.PID), cpuOf(stub.PID), d.cpu()
	r.written, err = d.wal(ctx)
	return r, err
}

// slowest is how long a saga of a peer may take: some take seconds with 256 clients.
const slowest = 5 * time.Minute

// newPeerLoad returns a load for the URL of a peer's starts.
func newPeerLoad(url string, connections int) *Load {
	l := NewLoad("", connections)
	l.url, l.client.Timeout = url, slowest
	return l
}

func peerRate(name string, clients int, all []peerSample) PeerRate {
	var list []sample
	var rates, others []float64
	r := PeerRate{Name: name, Clients: clients}
	for _, s := range all {
		if s.clients == clients {
			list = append(list, s.sample)
			rates, others = append(rates, s.took.PerSecond()), append(others, s.sample.others)
			r.Again, r.Memory = r.Again+s.again, max(r.Memory, s.memory)
		}
	}
	var cpu CPU
	r.PerSecond, _, r.WAL, cpu = sum(list)
	r.Program, r.Database = cpu.Engine, cpu.Database
	r.Lowest, r.Highest, r.Others = slices.Min(rates), slices.Max(rates), slices.Max(others)
	took := latencies(list)
	r.P50, r.P99 = ms(took.Quantile(.5)), ms(took.Quantile(.99))
	return r
}

// crash kills a peer whose sagas all wait for the response to their second request, and starts it
// again.
func (c *PeersConfig) crash(ctx context.Context, p Peer) (PeerCrash, error) {
	crash := PeerCrash{Name: p.Name(), Sagas: c.InFlight}
	at, err := p.Start(ctx)
	if err != nil {
		return crash, err
	}
	if err := c.launch(ctx, at); err != nil {
		p.Stop()
		return crash, err
	}
	p.Kill()
	if _, err := do(ctx, http.MethodPost, c.Stub.URL+"/go", ""); err != nil {
		return crash, err
	}
	began := time.Now()
	if at, err = p.Start(ctx); err != nil {
		return crash, err
	}
	defer p.Stop()
	crash.Listening = time.Since(began)
	var ledger Ledger
	for {
		if ledger, err = ledgerOf(ctx, c.Stub); err != nil {
			return crash, err
		}
		// Counting the live ones costs some peers a query, so their effects are looked at first.
		if crash.Left = c.InFlight; ledger.Effects >= 3*c.InFlight || time.Since(began) > c.Patience {
			if crash.Left, err = at.Live(ctx); err != nil {
				return crash, err
			}
		}
		if crash.Left == 0 || time.Since(began) > c.Patience {
			break
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return crash, err
		}
	}
	if crash.Left == 0 {
		crash.Ended = time.Since(began)
	}
	if ledger, err = ledgerOf(ctx, c.Stub); err != nil {
		return crash, err
	}
	crash.Again, crash.Twice = ledger.Again, ledger.Effects-3*c.InFlight
	return crash, nil
}

// launch warms a peer up and brings its sagas in flight.
func (c *PeersConfig) launch(ctx context.Context, at Running) error {
	if _, err := newPeerLoad(at.Run, c.InFlight).Times(ctx, Succeeds, c.InFlight, 2*c.InFlight); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	for _, path := range []string{"/reset", "/hold?path=/do/hotel"} {
		if _, err := do(ctx, http.MethodPost, c.Stub.URL+path, ""); err != nil {
			return err
		}
	}
	l := newPeerLoad(at.Send, c.InFlight)
	err := each(ctx, c.InFlight, func(ctx context.Context, _ int) error {
		a, err := l.start(ctx, Succeeds, false)
		if err == nil && a.status >= http.StatusMultipleChoices {
			err = fmt.Errorf("a start got the response %d, %.300s", a.status, a.body)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = awaitLedger(ctx, c.Stub, func(l Ledger) bool { return l.Held >= c.InFlight })
	return err
}

// Print writes the tables as Markdown.
func (r *PeersReport) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, medians of %d rounds (lowest to highest); each saga had its three effects once.\n\n", r.Machine, r.Store, r.Rounds)
	fmt.Fprintf(w, "| program | clients | sagas/s | %s ÷ it | p50 ms | p99 ms | CPU per saga, ms: program + Postgres | WAL bytes per saga | memory MB |\n|---|---|---|---|---|---|---|---|---|\n", r.Reference)
	reference := make(map[int]float64)
	for _, f := range r.Rates {
		if f.Name == r.Reference {
			reference[f.Clients] = f.PerSecond
		}
	}
	var notes []string
	var others float64
	for _, f := range r.Rates {
		factor := ""
		if f.Name != r.Reference && f.PerSecond > 0 {
			factor = fmt.Sprintf("%.1f", reference[f.Clients]/f.PerSecond)
		}
		fmt.Fprintf(w, "| %s | %d | %.0f (%.0f to %.0f) | %s | %.1f | %.0f | %.2f + %.2f | %.0f | %d |\n", f.Name, f.Clients, f.PerSecond, f.Lowest, f.Highest, factor, f.P50, f.P99, f.Program, f.Database, f.WAL, f.Memory)
		if f.Again > 0 {
			notes = append(notes, fmt.Sprintf("%s, %d clients: %d requests were sent again.", f.Name, f.Clients, f.Again))
		}
		others = max(others, f.Others)
	}
	if others > mostOthers {
		notes = append(notes, fmt.Sprintf("Other programs used up to %.2f cores during a round, so the figures are doubtful.", others))
	}
	if len(r.Crashes) > 0 {
		fmt.Fprintf(w, "\n| program | killed with sagas in flight | listening again, s | all ended, s | sent twice | of those not in flight | effects twice |\n|---|---|---|---|---|---|---|\n")
	}
	for _, k := range r.Crashes {
		ended := fmt.Sprintf("%.2f", k.Ended.Seconds())
		if k.Left > 0 {
			ended = fmt.Sprintf("%d had not", k.Left)
		}
		fmt.Fprintf(w, "| %s | %d | %.2f | %s | %d | %d | %d |\n", k.Name, k.Sagas, k.Listening.Seconds(), ended, k.Again, max(k.Again-k.Sagas, 0), max(k.Twice, 0))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Failed)) {
		notes = append(notes, fmt.Sprintf("%s has no figures, or not all: %v.", name, r.Failed[name]))
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
	return nil
}
