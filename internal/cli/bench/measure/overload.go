package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// OverloadReport is the result of more starts than the engine sustains.
type OverloadReport struct {
	Session
	Runs []OverloadRun `json:"runs"`
}

// OverloadRun is one flood of starts. Rates count starts, latencies are those of accepted
// ones.
type OverloadRun struct {
	Sustainable float64 `json:"sustainable_per_s"` // sagas of a closed loop
	Asked       float64 `json:"asked_per_s"`       // twice that
	Offered     float64 `json:"offered_per_s"`     // starts that were really sent
	AcceptedPS  float64 `json:"accepted_per_s"`
	Ended       float64 `json:"ended_per_s"` // accepted sagas, from the first start to the last end
	Starts      int     `json:"starts"`
	Accepted    int     `json:"accepted"`
	Busy        int     `json:"refused_429"`
	Unavailable int     `json:"refused_503"`
	P50         float64 `json:"p50_ms"` // from when the start was sent
	P99         float64 `json:"p99_ms"` //
	// Late is how long after it was due a start was sent: the delay of the load itself.
	Late     float64 `json:"late_p99_ms"`
	Drain    float64 `json:"drain_ms"`       // from the last start until the last accepted saga had ended
	Again    int     `json:"again"`          // requests sent again, under the same key
	BeforeMB int64   `json:"peak_before_mb"` // of the engine, until the flood
	PeakMB   int64   `json:"peak_mb"`        // until the end
}

// OverloadConfig configures a session.
type OverloadConfig struct {
	Engine, Stub Process
	Clients      int           // of the closed loop
	Sustain      time.Duration // how long that takes
	Each         time.Duration // how long the flood lasts
	Progress     Progress
}

// Overload finds the rate of booking3 that the engine sustains, and then starts twice as many. It
// fails if a response to a start is not 201, or 429 or 503 with Retry-After, if an accepted saga
// does not succeed with each effect once, or if a refused one exists.
func Overload(ctx context.Context, c OverloadConfig) (*OverloadReport, error) {
	if err := publish(ctx, c.Engine, Succeeds.Name(), Succeeds.Definition(c.Stub.URL)); err != nil {
		return nil, err
	}
	c.Progress(0, 3, fmt.Sprintf("what %d clients get", c.Clients))
	// So many connections that starts are sent when they are due, and do not wait for each other.
	l := NewLoad(c.Engine.URL, 8192)
	defer l.client.CloseIdleConnections()
	sustained, err := l.Closed(ctx, Succeeds, c.Clients, c.Sustain)
	if err != nil {
		return nil, err
	}
	if _, err := do(ctx, http.MethodPost, c.Stub.URL+"/reset", ""); err != nil {
		return nil, err
	}
	run := OverloadRun{Sustainable: round(sustained.PerSecond()), BeforeMB: peakOf(c.Engine.PID)}
	rate := max(int(2*sustained.PerSecond()), 1)
	c.Progress(1, 3, fmt.Sprintf("%d starts a second", rate))
	f, err := l.Flood(ctx, Succeeds, rate, c.Each)
	if err != nil {
		return nil, err
	}
	run.Asked, run.Offered, run.AcceptedPS = float64(rate), round(f.Late.PerSecond()), round(f.Accepted.PerSecond())
	run.Accepted, run.Busy, run.Unavailable = len(f.Accepted.All), f.Refused[http.StatusTooManyRequests], f.Refused[http.StatusServiceUnavailable]
	run.Starts = run.Accepted + run.Busy + run.Unavailable
	run.P50, run.P99 = ms(f.Accepted.Quantile(.5)), ms(f.Accepted.Quantile(.99))
	run.Late = ms(f.Late.Quantile(.99))
	c.Progress(2, 3, "until all have ended")
	ledger, err := awaitLedger(ctx, c.Stub, func(l Ledger) bool { return l.Effects >= 3*run.Accepted })
	if err == nil {
		err = awaitEnds(ctx, c.Engine, Succeeds.Name())
	}
	if err != nil {
		return nil, err
	}
	drain := time.Since(f.Last)
	run.Drain, run.PeakMB = ms(drain), peakOf(c.Engine.PID)
	run.Ended = round(float64(run.Accepted) / (f.Accepted.Wall + drain).Seconds())
	if ledger, err = ledgerOf(ctx, c.Stub); err != nil {
		return nil, err
	}
	run.Again = ledger.Again
	ledger.Requests, ledger.Again = ledger.Requests-ledger.Again, 0
	c.Progress(3, 3, "done")
	return &OverloadReport{Session: Session{Workload: "overload", Rounds: 1}, Runs: []OverloadRun{run}},
		errors.Join(Succeeds.Check(ledger, run.Accepted), f.Accepted.distinct(), c.allThere(ctx, len(sustained.All)+run.Accepted, append(sustained.ids, f.Accepted.ids...)))
}

// allThere compares the engine's sagas with those whose starts were answered: each has
// succeeded, and there are no others.
func (c *OverloadConfig) allThere(ctx context.Context, sagas int, ids []string) error {
	st, err := statsOf(ctx, c.Engine)
	if err != nil {
		return err
	}
	if want := map[string]int{"succeeded": sagas}; !maps.Equal(st.Sagas, want) {
		return fmt.Errorf("%d starts were acknowledged, but the sagas by status are %v", sagas, st.Sagas)
	}
	missing := make(map[string]bool, len(ids))
	for _, id := range ids {
		missing[id] = true
	}
	for cursor := ""; len(missing) > 0; {
		page, err := decoded[struct {
			Data []view
			Next string `json:"next_cursor"`
		}](get(ctx, c.Engine.URL+"/v1/sagas?limit=100"+cursor))
		if err != nil {
			return err
		}
		for _, v := range page.Data {
			delete(missing, v.ID)
		}
		if cursor = "&cursor=" + page.Next; page.Next == "" {
			break
		}
	}
	for id := range missing {
		return fmt.Errorf("%d acknowledged sagas do not exist: %s", len(missing), id)
	}
	return nil
}

// Print writes the report for people.
func (r *OverloadReport) Print(w io.Writer) error {
	l := r.Runs[0]
	r.head(w, fmt.Sprintf("%d starts of booking3; each accepted one succeeded, its effects were made once, and the refused ones left nothing", l.Starts))
	rows := [][]string{strings.Split(fmt.Sprintf("%.0f|%.0f|%.0f|%.0f|%d|%d|%d|%.1f|%.1f|%.0f|%.0f|%d|%d|%d", l.Sustainable, l.Offered, l.AcceptedPS, l.Ended, l.Accepted, l.Busy, l.Unavailable, l.P50, l.P99, l.Late, l.Drain, l.Again, l.BeforeMB, l.PeakMB), "|")}
	if err := table(w, []string{"sustainable/s", "offered/s", "accepted/s", "ended/s", "accepted", "429", "503", "p50 ms", "p99", "late p99", "drain ms", "sent again", "peak before MB", "peak MB"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nsustainable is what a closed loop gets of sagas to their ends; then starts are offered in an open loop, without waiting; ended/s is of\nthe accepted, from the first start to the last end. p50 and p99 are of the answers to accepted starts, from when each left; late is how long after it was due it did, which is the load's\ndoing; drain is from the last start until the last accepted saga had ended. Memory is the engine's.")
	if l.Offered < .95*l.Asked {
		fmt.Fprintf(w, "The load could not offer twice the sustainable rate (%.0f a second) on this machine.\n", l.Asked)
	}
	return nil
}
