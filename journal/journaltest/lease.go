package journaltest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var leaseTests = []test{
	{"an unknown node is fenced", unknownNode},
	{"a node registers once", registerTwice},
	{"an expired node is taken over", takenOver},
	{"a node that is named as dead is taken over before its lease ends", namedDead},
	{"a node that is named as dead and not registered", namedDeadAndGone},
	{"an expired node that nobody took over renews", renewsLate},
	{"a released node's sagas are claimable", released},
	{"appends race a takeover", appendsRaceTakeover},
	{"appends race a takeover by a successor", appendsRaceSuccessor},
	{"another process", anotherProcess},
	{"nodes", nodes},
	{"one machine is not synchronous", oneMachine},
	{"what was read is confirmed by a registered node", confirms},
}

func unknownNode(b *bench) {
	_, err := b.Renew(b.ctx, "nobody", ttl)
	b.wantErr(err, journal.ErrFenced)
	_, err = b.Store.Append(b.ctx, "nobody", []journal.Append{begin(newID())})
	b.wantErr(err, journal.ErrFenced)
	_, err = b.Store.Append(b.ctx, "nobody", nil)
	b.wantErr(err, journal.ErrFenced)
	_, err = b.Claim(b.ctx, "nobody", 1)
	b.wantErr(err, journal.ErrFenced)
	b.must(b.Release(b.ctx, "nobody"))
	if got := b.messages("nobody"); len(got) != 0 {
		b.Errorf("messages for an unknown node: %v", got)
	}
}

func registerTwice(b *bench) {
	if _, err := b.Register(b.ctx, b.node, ttl); err == nil {
		b.Error("the same node registered twice")
	}
	b.now()
}

// fenceOff waits until the node short, whose lease is short, is taken over, and returns a live
// node.
func (b *bench) fenceOff(short string) string {
	b.Helper()
	if b.exclusive {
		b.node = b.register(ttl)
		return b.node
	}
	b.eventually("takeover of "+short, func() bool {
		b.now() // renews the other node, which takes over
		infos, err := b.Nodes(b.ctx)
		b.must(err)
		for _, n := range infos {
			if n.Node == short {
				return false
			}
		}
		return true
	})
	return b.node
}

func takenOver(b *bench) {
	survivor := b.node
	b.node = b.register(300 * time.Millisecond)
	doomed := b.node
	saga, hash := b.started()
	b.node = survivor
	b.takenFrom(doomed, b.fenceOff(doomed), saga, hash)
}

// takenFrom fails unless heir can continue the saga and doomed can do nothing.
func (b *bench) takenFrom(doomed, heir string, saga uuid.UUID, hash []byte) {
	b.Helper()
	if h := b.head(saga); h.Owner != "" || h.WakeAt.IsZero() {
		b.Errorf("after the takeover: owner %q, wake at %v", h.Owner, h.WakeAt)
	}
	_, err := b.Renew(b.ctx, doomed, ttl)
	b.wantErr(err, journal.ErrFenced)
	_, err = b.Store.Append(b.ctx, doomed, []journal.Append{{Saga: saga, Records: chain(saga, hash, 2, 1)}})
	b.wantErr(err, journal.ErrFenced)
	_, err = b.Claim(b.ctx, doomed, 1)
	b.wantErr(err, journal.ErrFenced)
	b.must(b.Release(b.ctx, doomed))
	b.node = heir
	if c := b.claimed(saga); c.Claims != 1 {
		b.Errorf("claimed with %d claims, want 1", c.Claims)
	}
	if n := len(b.records(saga)); n != 1 {
		b.Errorf("%d records, want 1: the fenced node wrote", n)
	}
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1)})
}

func namedDead(b *bench) {
	bystander := b.node
	var left uuid.UUID
	if !b.exclusive {
		left, _ = b.started()
	}
	doomed := b.register(ttl)
	b.node = doomed
	saga, hash := b.started()
	b.takenFrom(doomed, b.register(ttl, doomed), saga, hash)
	if b.exclusive {
		return
	}
	if h := b.head(left); h.Owner != bystander {
		b.Errorf("a saga of a node that was not named: owner %q, want %q", h.Owner, bystander)
	}
	infos, err := b.Nodes(b.ctx)
	b.must(err)
	if slices.ContainsFunc(infos, func(n journal.NodeInfo) bool { return n.Node == doomed }) {
		b.Errorf("%s is among the nodes: %+v", doomed, infos)
	}
}

func namedDeadAndGone(b *bench) {
	saga, _ := b.started()
	b.must(b.Release(b.ctx, b.node))
	released := b.node
	b.node = b.register(ttl, released, "never-there", released)
	if c := b.claimed(saga); c.Claims != 1 {
		b.Errorf("claimed with %d claims, want 1", c.Claims)
	}
	b.node = b.register(ttl, released)
	if h := b.head(saga); !b.exclusive && h.Owner == "" {
		b.Error("a node that took over long ago has lost the saga")
	}
}

func renewsLate(b *bench) {
	node := b.register(time.Millisecond)
	b.node = node
	before, err := b.Renew(b.ctx, node, time.Millisecond)
	b.must(err)
	b.eventually("the lease ends", func() bool {
		lease, err := b.Renew(b.ctx, node, time.Millisecond)
		b.must(err)
		return lease.Now.Sub(before.Now) > 2*time.Millisecond
	})
	b.started()
}

func released(b *bench) {
	saga, _ := b.started()
	b.must(b.Release(b.ctx, b.node))
	_, err := b.Renew(b.ctx, b.node, ttl)
	b.wantErr(err, journal.ErrFenced)
	b.node = b.register(ttl)
	diff(b, "claimed", b.claim(b.node, 10), []uuid.UUID{saga})
}

func appendsRaceTakeover(b *bench) { b.appendsRace(50*time.Millisecond, b.fenceOff) }

func appendsRaceSuccessor(b *bench) {
	b.appendsRace(ttl, func(doomed string) string { return b.register(ttl, doomed) })
}

// appendsRace takes a node over while it appends. Whatever the result of an append was, it is
// written completely and its saga is claimable, or nothing of it is written.
func (b *bench) appendsRace(lease time.Duration, takeOver func(doomed string) (survivor string)) {
	survivor := b.node
	for range 5 {
		doomed := b.register(lease)
		var mu sync.Mutex
		acknowledged := map[uuid.UUID]bool{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					a := begin(newID())
					got, err := b.Store.Append(b.ctx, doomed, []journal.Append{a})
					if err != nil {
						return
					}
					mu.Lock()
					acknowledged[a.Saga] = got[0].Err == nil
					mu.Unlock()
				}
			})
		}
		b.node = survivor
		survivor = takeOver(doomed)
		wg.Wait()
		claimed := map[uuid.UUID]bool{}
		for _, saga := range b.claim(survivor, 1<<20) {
			claimed[saga] = true
		}
		for saga, ok := range acknowledged {
			if !ok || !claimed[saga] {
				b.Fatalf("saga %s: acknowledged %v, claimed after the takeover %v", saga, ok, claimed[saga])
			}
		}
	}
}

func anotherProcess(b *bench) {
	if b.subject.Again == nil {
		return
	}
	saga, _ := b.started()
	other := b.again()
	h, err := other.Saga(b.ctx, saga)
	b.must(err)
	diff(b, "head", h, b.head(saga))
	b.must(other.Send(b.ctx, journal.Message{ID: newID(), Saga: saga, Kind: "cancel"}))
	if got := b.messages(b.node); len(got) != 1 {
		b.Errorf("%d messages from the other process, want 1", len(got))
	}
	_, err = other.Register(b.ctx, "other", ttl)
	if !b.exclusive {
		b.must(err)
		return
	}
	b.wantErr(err, journal.ErrInUse)
	b.must(b.Release(b.ctx, b.node))
	_, err = other.Register(b.ctx, "other", ttl)
	b.must(err)
	claimed, err := other.Claim(b.ctx, "other", 10)
	b.must(err)
	if len(claimed) != 1 || claimed[0].Saga != saga || claimed[0].Messages != 1 {
		b.Errorf("claimed %+v, want %s with a message", claimed, saga)
	}
}

func nodes(b *bench) {
	b.started()
	b.started()
	now := b.now()
	got, err := b.Nodes(b.ctx)
	b.must(err)
	diff(b, "nodes", got, []journal.NodeInfo{{Node: b.node, ExpiresAt: now.Add(ttl), Sagas: 2}})
}

func oneMachine(b *bench) {
	err := b.Synchronous(b.ctx)
	b.wantErr(err, journal.ErrNotSynchronous)
	if !strings.Contains(err.Error(), ": ") {
		b.Errorf("%q does not say what to do", err)
	}
}

func confirms(b *bench) {
	b.must(b.Confirm(b.ctx, b.node))
	b.wantErr(b.Confirm(b.ctx, "nobody"), journal.ErrFenced)
	b.must(b.Release(b.ctx, b.node))
	b.wantErr(b.Confirm(b.ctx, b.node), journal.ErrFenced)
}
