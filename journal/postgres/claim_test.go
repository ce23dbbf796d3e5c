package postgres

import (
	"testing"

	"github.com/gofrs/uuid/v5"
)

// Sagas that a Claim with an unknown result may have taken are claimed by the next Claim, whether
// the first one took them or not, unless they are no longer due.
func TestClaimAfterUnknown(t *testing.T) {
	for name, claim := range map[string]string{"all": claimable, "local": claimableLocal} {
		t.Run(name, func(t *testing.T) {
			b := newSpanBench(t)
			var ids []uuid.UUID
			for range 5 {
				ids = append(ids, b.started(b.at(b.now())).Saga)
			}
			took, due, parked, quarantined, others := ids[0], ids[1], ids[2], ids[3], ids[4]
			b.exec(`UPDATE sagas SET local = true, claims = 1, wake_at = 0`)
			b.exec(`UPDATE sagas SET owner = NULL WHERE id <> $1`, took)
			b.exec(`UPDATE sagas SET wake_at = `+nowMS+` + 3600000 WHERE id = $1`, parked)
			b.exec(`UPDATE sagas SET wake_at = NULL, status = 'stuck', claims = 8 WHERE id = $1`, quarantined)
			b.exec(`UPDATE sagas SET owner = 'another' WHERE id = $1`, others)
			b.lost[spanNode] = append(ids, b.at(b.now())) // and one that was deleted
			again, err := b.claim(t.Context(), spanNode, claim, 1)
			b.must(err)
			claims := map[uuid.UUID]int{}
			for _, c := range again {
				claims[c.Saga] = c.Claims
			}
			if len(again) != 2 || claims[took] != 1 || claims[due] != 2 || b.lost[spanNode] != nil {
				t.Errorf("claimed %+v, lost %v; want %s again and %s", again, b.lost, took, due)
			}
		})
	}
}
