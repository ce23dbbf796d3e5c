package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"recourse/examples/world"
)

// load runs while nodes are struck.
type load struct {
	*clients
	people *people
	world  *world.Control
	stop   context.CancelFunc
	work   sync.WaitGroup // clients and weather
	help   sync.WaitGroup // people, until all sagas have ended
}

// startLoad makes clients start sagas, each the next one when the last has ended or takes too long.
// They run the function one until its context ends.
func startLoad(f *fleet, w *world.Control, timeout string, one func(ctx context.Context, l *load, who int)) *load {
	l := &load{clients: newClients(f), world: w}
	l.timeout = timeout
	l.publish()
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.people = stop, newPeople(l.clients, w)
	f.t.Cleanup(l.end)
	for i := range crowd {
		l.work.Go(func() { one(ctx, l, i) })
	}
	l.help.Go(l.people.run)
	return l
}

// end ends all of it at once.
func (l *load) end() {
	l.stop()
	l.work.Wait()
	l.people.leave()
	l.help.Wait()
}

// crowd is how many clients there are.
const crowd = 10

// foul is the load that passes every point: it includes faults of the remote service.
func foul(ctx context.Context, l *load, who int) {
	if who == 0 {
		l.weather(ctx)
		return
	}
	l.client(ctx, who)
}

// client starts one saga after another.
func (l *load) client(ctx context.Context, who int) {
	rng := rand.New(rand.NewPCG(uint64(who), 0x10ad))
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("client-%d-%d", who, i)
		switch rng.IntN(19) {
		case 0, 1, 2:
			l.one(ctx, "books", key, i)
		case 3, 4, 5:
			l.one(ctx, "fails", key, i)
		case 6, 7:
			l.one(ctx, "verified", key, i)
		case 8, 9:
			l.one(ctx, "ships", key, i)
		case 10:
			_, _ = l.start(ctx, "asked", key, i)
		case 11:
			_, _ = l.start(ctx, "naps", key, i)
		case 12, 13:
			l.one(ctx, "wide", key, i)
		case 14:
			l.one(ctx, "family", key, i)
		default:
			l.interfere(ctx, rng.IntN(4), key, i)
		}
		<-time.After(time.Duration(rng.IntN(60)) * time.Millisecond)
	}
}

func (l *load) one(ctx context.Context, definition, key string, n int) {
	if id, ok := l.start(ctx, definition, key, n); ok {
		l.ended(id)
	}
}

// interfere starts a saga and sends a command before it has ended.
func (l *load) interfere(ctx context.Context, what int, key string, n int) {
	id, ok := l.start(ctx, "slow", key, n)
	if !ok {
		return
	}
	switch what {
	case 0:
		l.command(id, "cancel", `{"reason":"changed my mind"}`)
	case 1:
		l.patch(id, `{"labels":{"seen":"yes"}}`)
	default:
		l.command(id, "pause", `{}`)
		l.command(id, "resume", `{}`)
	}
	l.ended(id)
}

// weather makes the remote service fail sometimes.
func (l *load) weather(ctx context.Context) {
	rng := rand.New(rand.NewPCG(7, 0xbad))
	rules := []world.Rule{
		{Match: world.Match{PathPrefix: "/pay/charges"}, Do: world.Do{Before: "status", Status: 429, RetryAfter: "0"}},
		{Match: world.Match{PathPrefix: "/air/bookings"}, Do: world.Do{After: "status", Status: 500}},
		{Match: world.Match{PathPrefix: "/pay/refunds", Method: "POST"}, Do: world.Do{After: "drop"}},
		{Match: world.Match{PathPrefix: "/pay/refunds", Method: "POST"}, Do: world.Do{Before: "drop"}},
		{Match: world.Match{PathPrefix: "/pay/refunds", Method: "GET"}, Do: world.Do{Before: "status", Status: 503}},
		{Match: world.Match{PathPrefix: "/stock/expected-returns"}, Do: world.Do{After: "reset"}},
		{Match: world.Match{PathPrefix: "/things"}, Do: world.Do{LateMS: 200}},
		{Match: world.Match{PathPrefix: "/ship/orders"}, Do: world.Do{After: "cut"}},
		{Match: world.Match{PathPrefix: "/hotels"}, Do: world.Do{Duplicate: 1}},
		{Match: world.Match{PathPrefix: "/mail"}, Do: world.Do{After: "drop"}},
		{Match: world.Match{PathPrefix: "/pay/refunds", Method: "POST"}, Do: world.Do{After: "drop"}},
	}
	for i := 0; ctx.Err() == nil; i++ {
		if i%20 == 0 { // remove the rules that have struck
			if err := l.world.ClearFaults(ctx); err != nil && ctx.Err() == nil {
				l.t.Error(err)
			}
		}
		rule := rules[rng.IntN(len(rules))]
		rule.Times = 1
		if err := l.world.AddFault(ctx, rule); err != nil && ctx.Err() == nil {
			l.t.Error(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// more waits until so many more starts have been acknowledged.
func (l *load) more(starts int) {
	l.t.Helper()
	l.mu.Lock()
	want := len(l.starts) + starts
	l.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		l.mu.Lock()
		n := len(l.starts)
		l.mu.Unlock()
		if n >= want {
			return
		}
	}
	l.t.Errorf("fewer than %d starts were acknowledged", want)
}

// settle ends the load and the weather; people stay until every saga has ended. It returns those
// that have not.
func (l *load) settle(within time.Duration) (left []string) {
	l.t.Helper()
	l.stop()
	l.work.Wait()
	if err := l.world.ClearFaults(context.Background()); err != nil {
		l.t.Error(err)
	}
	l.fleet.whole(time.Minute)
	left = l.people.finish(within)
	l.help.Wait()
	return left
}
