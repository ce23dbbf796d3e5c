package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// batchSize is the number of starts in a batch, the most that the server allows.
const batchSize = 1000

// BatchFigure compares batches of starts with single starts, each sent by one client, one request
// after another. The floor has no batches.
type BatchFigure struct {
	Size    int     `json:"size"`
	Engine  float64 `json:"engine_per_s"`     // starts
	Single  float64 `json:"single_per_s"`     // with one start a request
	Ratio   float64 `json:"ratio"`            // median of the rounds' ratios
	P50     float64 `json:"p50_ms"`           // of a batch
	Commits float64 `json:"commits_per_saga"` //
	Written float64 `json:"wal_bytes_per_saga"`
	CPU     CPU     `json:"cpu_ms_per_saga"`
}

// Batches starts sagas in batches for d, one after another. The latency of each start is that of
// its batch.
func (l *Load) Batches(ctx context.Context, v Variant, d time.Duration) (took Took, err error) {
	began := time.Now()
	for end := began.Add(d); time.Now().Before(end); {
		at := time.Now()
		ids, err := l.batch(ctx, v)
		if err != nil {
			return took, err
		}
		took.ids = append(took.ids, ids...)
		for range ids {
			took.All = append(took.All, time.Since(at))
		}
	}
	return gather([]Took{took}, time.Since(began)), nil
}

// batch sends one batch and returns the ids of its sagas.
func (l *Load) batch(ctx context.Context, v Variant) (ids []string, err error) {
	var body []byte
	for range batchSize {
		n := l.n.Add(1)
		body = fmt.Appendf(body, `{"idempotency_key":"%s-%d","definition":%q,"input":{"trip":"%[1]s-%[2]d"}}`+"\n", l.run, n, v.Name())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+":batch", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	answered, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(answered) {
		var result struct {
			Status int
			ID     string
		}
		if err := json.Unmarshal(line, &result); err != nil || result.Status != http.StatusCreated {
			return nil, fmt.Errorf("a start in a batch got the result %.300s", line)
		}
		ids = append(ids, result.ID)
	}
	if len(ids) != batchSize {
		return nil, fmt.Errorf("a batch of %d starts got %d results", batchSize, len(ids))
	}
	return ids, nil
}

// batchFigure compares the rounds of batches with those of single starts by one client, if there
// were any.
func batchFigure(batches, single []sample) *BatchFigure {
	f := &BatchFigure{Size: batchSize, P50: ms(latencies(batches).Quantile(.5))}
	f.Engine, f.Commits, f.Written, f.CPU = sum(batches)
	if len(single) == 0 {
		return f
	}
	var ratios []float64
	for i := range batches {
		ratios = append(ratios, batches[i].took.PerSecond()/single[i].took.PerSecond())
	}
	f.Single, _, _, _ = sum(single)
	f.Ratio = round(median(ratios))
	return f
}
