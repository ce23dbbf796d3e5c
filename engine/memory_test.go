package engine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
)

const twoRequests = "saga: x\nsteps:\n  - {id: a, http: \"POST https://x.example/a\"}\n  - {id: b, http: \"POST https://x.example/b\"}\n"

// sent starts a saga and returns it with its first request.
func (b *bench) sent() (uuid.UUID, engine.Perform) {
	b.t.Helper()
	id := b.start()
	b.handle(b.append())
	sends := take[engine.Perform](b)
	if len(sends) != 1 {
		b.t.Fatalf("%d requests leave, want one", len(sends))
	}
	return id, sends[0]
}

func answerTo(p engine.Perform, memory any, body string) engine.Answered {
	return engine.Answered{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, Memory: memory,
		Answer: saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(body)}}
}

// freed returns the memory that the lane has returned.
func (b *bench) freed() (list []string) {
	for _, f := range take[engine.Freed](b) {
		list = append(list, f.Memory.(string))
	}
	return list
}

// The memory of a response is returned once: when the outcome is durable, and not before, or when
// the response is discarded.
func TestMemoryOfAnswersIsFreed(t *testing.T) {
	for name, f := range map[string]func(b *bench, p engine.Perform) (want []string){
		"durable": func(b *bench, p engine.Perform) []string {
			b.handle(answerTo(p, "m", "1"))
			committed := b.append()
			if early := b.freed(); len(early) > 0 {
				b.t.Errorf("%v was freed before the outcome was durable", early)
			}
			b.handle(committed)
			return []string{"m"}
		},
		"commit repeated": func(b *bench, p engine.Perform) []string {
			b.handle(answerTo(p, "m", "1"))
			b.handle(engine.Committed{Number: take[engine.Commit](b)[0].Number, Err: journal.ErrUnknown})
			if early := b.freed(); len(early) > 0 {
				b.t.Errorf("%v was freed before the outcome was durable", early)
			}
			b.tick()
			b.handle(b.append())
			return []string{"m"}
		},
		"answered twice": func(b *bench, p engine.Perform) []string {
			b.handle(answerTo(p, "m", "1"))
			b.handle(answerTo(p, "late", "1"))
			b.handle(b.append())
			return []string{"late", "m"}
		},
		"saga not known": func(b *bench, p engine.Perform) []string {
			p.ID = uuid.Must(uuid.NewV4())
			b.handle(answerTo(p, "m", "1"))
			return []string{"m"}
		},
		"lease lost": func(b *bench, p engine.Perform) []string {
			b.handle(answerTo(p, "m", "1"))
			b.handle(engine.LeaseLost{})
			b.handle(answerTo(p, "late", "1"))
			return []string{"m", "late"}
		},
		"saga is another's": func(b *bench, p engine.Perform) []string {
			b.handle(answerTo(p, "m", "1"))
			b.handle(engine.Committed{Number: take[engine.Commit](b)[0].Number, Results: []journal.Result{{Err: journal.ErrConflict}}})
			b.handle(answerTo(p, "late", "1"))
			return []string{"m", "late"}
		},
		"not readable": func(b *bench, p engine.Perform) []string {
			b.handle(answerTo(p, "m", "no JSON")) // no kind returns this: the lane gives the saga up
			return []string{"m"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, twoRequests)
			b.lease("n1")
			_, p := b.sent()
			want := f(b, p)
			if got := b.freed(); !slices.Equal(got, want) {
				t.Errorf("freed %v, want %v", got, want)
			}
		})
	}
}

// If the lane's sagas take more than MaxSagaBytes, a large one leaves memory between two steps. The
// next node that loads it lets it do at least one step. Small sagas are not affected.
func TestLargeSagasLeaveMemory(t *testing.T) {
	b := newBench(t, twoRequests)
	b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 8, MaxRecords: 16, MaxSagaBytes: 10_000, Random: func() uint64 { return 0 }})
	b.lease("n1")
	smallID, small := b.sent()
	_, large := b.sent()
	b.handle(answerTo(large, nil, `"`+strings.Repeat("x", 20_000)+`"`))
	b.handle(b.append())
	if sends := take[engine.Perform](b); len(sends) > 0 {
		t.Errorf("the large saga has sent %s, want it to leave memory first", sends[0].Send.Path)
	}
	if dropped := take[engine.Dropped](b); len(dropped) != 1 || dropped[0].ID != large.ID || dropped[0].Err != nil {
		t.Errorf("dropped %v, want the large saga, parked", dropped)
	}
	if bytes := b.lane.Bytes(); bytes <= 0 || bytes > 2000 {
		t.Errorf("%d bytes in the lane, want those of the small saga", bytes)
	}

	loaded := b.claim("n1") // it is due
	b.handle(loaded)
	b.handle(b.append())
	sends := take[engine.Perform](b)
	if len(sends) != 1 || sends[0].Send.Path != "b" {
		t.Fatalf("it sends %v, want its next step's request although there is no more memory than before", sends)
	}
	b.handle(answerTo(small, nil, "1"))
	b.handle(b.append())
	next := take[engine.Perform](b)
	if len(next) != 1 || next[0].ID != smallID {
		t.Fatalf("it sends %v, want the small saga's next request", next)
	}
	for _, p := range append(sends, next...) {
		b.handle(answerTo(p, nil, "1"))
		b.handle(b.append())
	}
	b.ended([]uuid.UUID{large.ID, smallID})
	if bytes := b.lane.Bytes(); bytes != 0 {
		t.Errorf("the lane is empty, but counts %d bytes", bytes)
	}
}
