package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// campaign strikes a fleet at its points, one run at a time for each point.
type campaign struct {
	t     *testing.T
	fleet *fleet
	work  sync.WaitGroup

	calm  sync.RWMutex // locked for writing while no other node may be killed
	mu    sync.Mutex
	busy  map[string]bool
	seen  map[string]bool // files in struck
	todo  []run
	count map[string]int // runs by point, and by action
}

// run is one strike.
type run struct {
	point  point
	action string
}

// reach bounds the time until a node reaches a point. The load must pass every point, but chance
// decides when: on a busy machine a rare one may take more than a minute.
const reach = 3 * time.Minute

// strike strikes every point so many times. The seed determines the order, and the
// first action.
func strike(f *fleet, points []point, rounds int, freeze bool, seed int) *campaign {
	c := &campaign{t: f.t, fleet: f, busy: make(map[string]bool), seen: make(map[string]bool), count: make(map[string]int)}
	for at, p := range points {
		actions := p.actions(freeze)
		for i := range rounds {
			c.todo = append(c.todo, run{p, actions[(at+i+seed*rounds)%len(actions)]})
		}
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 0xc4a54))
	rng.Shuffle(len(c.todo), func(i, k int) { c.todo[i], c.todo[k] = c.todo[k], c.todo[i] })
	hard := func(r run) bool { return r.action != "error" }
	soft := func(r run) bool { return r.action == "error" }
	// Two nodes may be down or frozen at once, and some more by what leads to a point.
	for _, which := range []func(run) bool{hard, hard, soft, soft, soft} {
		c.work.Go(func() { c.strikes(which) })
	}
	c.work.Wait()
	f.thaw()
	return c
}

// strikes does runs until there are none left.
func (c *campaign) strikes(which func(run) bool) {
	for !c.t.Failed() {
		r, left := c.next(which)
		switch {
		case !left:
			return
		case r.action == "": // other runs are at the remaining points
			<-time.After(20 * time.Millisecond)
		default:
			c.careful(r)
			c.free(r.point.name)
		}
	}
}

// next takes a run whose point no other run is at.
func (c *campaign) next(which func(run) bool) (r run, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.todo {
		if !which(r) {
			continue
		}
		left = true
		if !c.busy[r.point.name] {
			c.busy[r.point.name] = true
			c.todo = slices.Delete(c.todo, i, i+1)
			return r, true
		}
	}
	return run{}, left
}

// take occupies a point, unless another run is at it.
func (c *campaign) take(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.busy[name]
	c.busy[name] = true
	return !was
}

func (c *campaign) free(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, name)
}

// careful makes a run wait if it would disturb others or be disturbed.
func (c *campaign) careful(r run) {
	switch {
	case r.point.calm:
		c.calm.Lock()
		defer c.calm.Unlock()
	case r.action != "error":
		c.calm.RLock()
		defer c.calm.RUnlock()
	}
	c.do(r)
}

// do does a run. If another strike thaws a node at the moment in which it freezes, the freeze is
// repeated.
func (c *campaign) do(r run) {
	for range 3 {
		pid, ok := c.hit(r)
		if !ok {
			c.t.Errorf("no node came by %s to be struck with %s", r.point.name, r.action)
			return
		}
		if !c.takesEffect(r, pid) {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count["point "+r.point.name]++
		c.count["runs"]++
		c.count[r.action]++
		return
	}
	c.t.Errorf("%s: no node froze", r.point.name)
}

// takesEffect waits until a node that was struck is dead, or was frozen past its lease. It returns
// false if the node did not freeze.
func (c *campaign) takesEffect(r run, pid int) bool {
	switch r.action {
	case "kill":
		if p := c.fleet.find(pid); p != nil && !p.gone(20*time.Second) {
			c.t.Errorf("%s: the node lives on", r.point.name)
		}
	case "stop":
		if !stopped(pid, 5*time.Second) {
			return false
		}
		<-time.After(c.fleet.frozen())
		if p := c.fleet.find(pid); p != nil {
			p.signal(syscall.SIGCONT)
		}
	}
	return true
}

// hit arms a point and waits until a node has taken it; it returns the node's process.
func (c *campaign) hit(r run) (pid int, ok bool) {
	if err := arm(c.fleet.dir, r.point.name, r.action); err != nil {
		c.t.Error(err)
		return 0, false
	}
	begun := time.Now()
	for again := begun; time.Since(begun) < reach; <-time.After(5 * time.Millisecond) {
		if pid, ok := c.struck(r.point.name); ok {
			return pid, true
		}
		if r.point.lead != nil && time.Since(again) >= 0 {
			again = time.Now().Add(8 * c.fleet.cfg.lease)
			r.point.lead(c)
		}
	}
	return 0, false
}

// arm creates the file in one step, so that a node never reads a part of it.
func arm(dir, point, action string) error {
	if err := os.MkdirAll(filepath.Join(dir, "struck", point), 0o755); err != nil {
		return err
	}
	draft := filepath.Join(dir, point)
	if err := os.WriteFile(draft, []byte(action), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(dir, "armed", point))
}

// struck reports which process has taken a point, once.
func (c *campaign) struck(name string) (pid int, ok bool) {
	entries, err := os.ReadDir(filepath.Join(c.fleet.dir, "struck", name))
	if err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		file := name + "/" + e.Name()
		if c.seen[file] {
			continue
		}
		c.seen[file] = true
		by, _, _ := strings.Cut(e.Name(), "-")
		if pid, err = strconv.Atoi(by); err != nil {
			c.t.Error(err)
		}
		return pid, true
	}
	return 0, false
}

// report logs the work of all campaigns, and fails if it was not enough.
func report(t *testing.T, points []point, rounds int, campaigns ...*campaign) {
	t.Helper()
	sum := make(map[string]int)
	for _, c := range campaigns {
		for what, n := range c.count {
			sum[what] += n
		}
	}
	for _, p := range points {
		if n := sum["point "+p.name]; n < rounds {
			t.Errorf("%s was struck %d times of %d", p.name, n, rounds)
		}
	}
	t.Logf("%d points, %d runs: %d kills, %d freezes, %d errors", len(points), sum["runs"], sum["kill"], sum["stop"], sum["error"])
}
