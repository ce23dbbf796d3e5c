package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fleetConfig configures the nodes.
type fleetConfig struct {
	program string
	db      database
	world   string // its URL
	nodes   int
	lease   time.Duration // 0: the program's default
	env     []string
}

// fleet is some nodes on one database. A node that ends is started again.
type fleet struct {
	t    *testing.T
	cfg  fleetConfig
	dir  string // of failpoints, and of logs
	work sync.WaitGroup

	mu       sync.Mutex
	up       []*process // by node; nil: does not listen
	live     map[int]*process
	turn     int
	closing  bool
	deaths   int
	restarts chan struct{} // closed and replaced when a node has started
}

// startFleet starts the nodes and returns when all of them listen.
func startFleet(t *testing.T, cfg fleetConfig) *fleet {
	t.Helper()
	f := &fleet{t: t, cfg: cfg, dir: t.TempDir(), up: make([]*process, cfg.nodes), live: make(map[int]*process), restarts: make(chan struct{})}
	for _, dir := range []string{"armed", "struck"} {
		if err := os.Mkdir(filepath.Join(f.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(f.close)
	for i := range cfg.nodes {
		f.work.Go(func() { f.supervise(i) })
	}
	f.whole(time.Minute)
	return f
}

// launch starts a node.
func (f *fleet) launch(i int) (*process, error) {
	log, err := os.OpenFile(f.log(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	env := append([]string{"RECOURSE_FAILPOINTS_DIR=" + f.dir}, f.cfg.env...)
	for _, name := range []string{"air", "hotels", "pay", "stock", "ship", "mail", "things"} {
		env = append(env, "RECOURSE_VAR_"+name+"="+f.cfg.world+"/"+name)
	}
	args := []string{"serve", "--database", f.cfg.db.url, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1", "--while-stdin", "--drain", "3s", "--log-level", "warn"}
	if f.cfg.lease > 0 {
		args = append(args, "--node-lease", f.cfg.lease.String())
	}
	if i%2 == 0 { // the sagas of the others wait for the end of the lease
		args = append(args, "--state-dir", filepath.Join(f.dir, fmt.Sprint("state-", i)))
	}
	return spawn(f.cfg.program, env, log, args...)
}

// supervise keeps one node running.
func (f *fleet) supervise(i int) {
	for {
		p, err := f.launch(i)
		if err != nil {
			f.t.Errorf("node %d does not start: %v", i, err)
			return
		}
		if f.born(p); p.listens() {
			f.listening(i, p)
		}
		<-p.dead
		if f.died(i, p) {
			return
		}
		if !f.expected(i, p) {
			f.t.Errorf("node %d ended by itself: %s\n%s", i, p.ended(), f.tail(i, 30))
			return
		}
	}
}

func (f *fleet) born(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[p.pid()] = p
	if f.closing {
		p.signal(syscall.SIGKILL)
	}
}

func (f *fleet) listening(i int, p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[i] = p
	close(f.restarts)
	f.restarts = make(chan struct{})
}

// died notes that a node has ended, and reports whether it must not be started again.
func (f *fleet) died(i int, p *process) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[i] = nil
	delete(f.live, p.pid())
	f.deaths++
	return f.closing
}

// expected reports whether a node ended as it should: killed, by signals (the second one makes it
// drop everything), or by an injected error at its start.
func (f *fleet) expected(i int, p *process) bool {
	switch p.ended() {
	case "signal: killed":
		return true
	case "signal: terminated":
		return p.signalled.Load() > 1
	case "exit status 0":
		return p.signalled.Load() > 0
	}
	return p.url == "" && strings.Contains(f.tail(i, 1), "injected by a failpoint")
}

// whole waits until all nodes are up.
func (f *fleet) whole(within time.Duration) {
	f.t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		f.mu.Lock()
		down, came := 0, f.restarts
		for _, p := range f.up {
			if p == nil {
				down++
			}
		}
		f.mu.Unlock()
		if down == 0 {
			return
		}
		select {
		case <-came:
		case <-late.C:
			f.t.Errorf("%d nodes do not come up", down)
			return
		}
	}
}

// node returns a node that is up, another one each time; nil if there is none.
func (f *fleet) node() *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range f.up {
		f.turn++
		if p := f.up[f.turn%len(f.up)]; p != nil {
			return p
		}
	}
	return nil
}

// await returns a node as soon as one is up; nil if none starts in time.
func (f *fleet) await(within time.Duration) *process {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if p := f.node(); p != nil {
			return p
		}
	}
	return nil
}

// find returns the node with this process id; nil if it has ended.
func (f *fleet) find(pid int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[pid]
}

// freeze stops a node for longer than its lease.
func (f *fleet) freeze(p *process) {
	p.signal(syscall.SIGSTOP)
	<-time.After(f.frozen())
	p.signal(syscall.SIGCONT)
}

// thaw lets all nodes run. Two strikes may freeze one node, and the first thaw may come before the
// second signal.
func (f *fleet) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.live {
		p.signal(syscall.SIGCONT)
	}
}

// frozen is how long a node is frozen: its lease ends, others check each third of theirs, and take
// it over.
func (f *fleet) frozen() time.Duration { return f.cfg.lease + f.cfg.lease*2/3 }

// close ends the nodes, and checks their logs.
func (f *fleet) close() {
	f.mu.Lock()
	f.closing = true
	for _, p := range f.live {
		p.signal(syscall.SIGKILL)
	}
	f.mu.Unlock()
	f.work.Wait()
	for i := range f.up {
		for _, bad := range []string{"DATA RACE", "panic:"} {
			if f.logged(i, bad) > 0 {
				f.t.Errorf("node %d logged %q", i, bad)
			}
		}
		if f.t.Failed() {
			f.t.Logf("node %d logged last:\n%s", i, f.tail(i, 30))
		}
	}
}
