package measure

import (
	"context"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Seed is a saga to add to the database.
type Seed struct {
	Definition string
	Input      string // JSON; "": null
	Labels     map[string]string
}

// Seeding says which sagas to add to the database.
type Seeding struct {
	Definitions map[string]string // source by name
	Sagas       int
	// Of gives saga i; now is the database's clock.
	Of       func(i int, now time.Time) Seed
	Progress Progress
}

// Seeded describes the added sagas.
type Seeded struct {
	IDs  []uuid.UUID // of saga i
	Wall time.Duration
}

// PerSecond returns the rate.
func (s Seeded) PerSecond() float64 {
	return round(float64(len(s.IDs)) / max(s.Wall, time.Millisecond).Seconds())
}

// Seeder adds sagas to an engine's database as a server would, but without a server.
type Seeder func(ctx context.Context, s Seeding) (Seeded, error)
