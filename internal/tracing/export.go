package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recourse/internal/egress"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// put queues a span. It never waits: if there is no room, the span is dropped.
func (t *Tracer) put(s source) {
	size := int64(s.size())
	if t.held.Add(size) <= maxSpans {
		select {
		case t.queue <- s:
			return
		default:
		}
	}
	t.held.Add(-size)
	t.dropped.Add(1)
}

// maxSpans bounds the bytes of records that queued spans refer to.
const maxSpans = 64 << 20

// run exports queued spans until Shutdown, and then the rest.
func (t *Tracer) run() {
	defer close(t.done)
	every := time.NewTicker(t.cfg.Every)
	defer every.Stop()
	for {
		select {
		case s := <-t.queue:
			t.take(s)
		case <-every.C:
			t.export()
		case <-t.quit:
			for {
				select {
				case s := <-t.queue:
					t.take(s)
				default:
					t.export()
					return
				}
			}
		}
	}
}

func (t *Tracer) take(s source) {
	t.build.add(s.span())
	t.held.Add(-int64(s.size()))
	if len(t.build.batch) >= t.cfg.Batch {
		t.export()
	}
}

// export sends the batch. After Config.Patience it drops the batch.
func (t *Tracer) export() {
	batch := t.build.batch
	if len(batch) == 0 {
		return
	}
	t.build.batch = nil
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Patience)
	defer cancel()
	lost, err := t.outcome(len(batch), t.send(ctx, batch))
	switch {
	case err != nil && !t.failing:
		t.log.Warn("spans could not be exported, and are dropped: look at the collector, and at --otlp-endpoint", "spans", lost, "error", err)
	case err == nil && t.failing:
		t.log.Info("spans are exported again")
	}
	t.failing = err != nil
	t.dropped.Add(int64(lost))
	t.exported.Add(int64(len(batch) - lost))
}

// outcome returns how many spans of an export are lost, and why. It logs the first warning of the
// collector.
func (t *Tracer) outcome(sent int, err error) (lost int, _ error) {
	part, ok := errors.AsType[partly](err)
	switch {
	case err == nil:
		return 0, nil
	case !ok:
		return sent, err
	case part.rejected > 0:
		return int(min(part.rejected, uint64(sent))), err
	}
	if !t.warned {
		t.warned = true
		t.log.Warn("the collector accepts the spans, but has a warning; further warnings are not logged", "warning", fmt.Sprintf("%.500q", part.message))
	}
	return 0, nil
}

// The delays between tries to reach a collector.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 5 * time.Second
)

// send repeats the export while the collector cannot be reached, for example because it restarts,
// or asks for a retry. Shutdown does not wait for it.
func (t *Tracer) send(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := t.cfg.Export.ExportSpans(ctx, batch)
		wait := pause
		if later := (retryLater{}); errors.As(err, &later) {
			wait = max(pause, later.after)
		} else if away := new(egress.Failure); !errors.As(err, &away) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-t.quit:
			return err
		case <-time.After(wait):
		}
	}
}

// Shutdown exports the queued spans and ends the Tracer. When ctx ends, it drops the rest and
// returns an error. It is called once, after the engine has ended.
func (t *Tracer) Shutdown(ctx context.Context) error {
	close(t.quit)
	late := context.AfterFunc(ctx, t.stop)
	defer late()
	<-t.done
	t.stop()
	if err := t.cfg.Export.Shutdown(ctx); err != nil {
		return fmt.Errorf("end the export of spans: %w", err)
	}
	return nil
}
