package sim

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/evidence"
	"recourse/journal"
)

// anchorEvery is the time between two anchors of a node, if it commits.
const anchorEvery = 5 * time.Second

// anchorKey signs the anchors of all nodes.
var anchorKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// acquired notes the journal of a saga that the node continues, as evidence.Signer does.
func (n *node) acquired(a engine.Acquired) {
	if r := a.Records; len(r) > 0 && !a.Machine.Ended() {
		n.heads.Add(evidence.Head{Saga: a.ID, Seq: r[len(r)-1].Seq, Hash: r[len(r)-1].Hash})
	}
}

// advanced notes the end of a journal, and signs an anchor if the last one is old. A node that dies
// loses what it has noted. It schedules no event, so that anchors change nothing else.
func (n *node) advanced(a engine.Advanced) {
	last := a.Records[len(a.Records)-1]
	n.heads.Add(evidence.Head{Saga: a.ID, Seq: last.Seq, Hash: last.Hash, DeleteAt: a.DeleteAt})
	if n.s.now.Sub(n.anchored) >= anchorEvery {
		n.anchor(false)
	}
}

func (n *node) anchor(last bool) {
	n.anchored = n.s.now
	n.s.anchors = append(n.s.anchors, n.chain.Sign(n.lease.Node(), n.s.now, n.heads.Take(), last))
}

// checkAnchors compares all journals with the anchors. Then it rewrites a journal, and cuts off its
// end, which the anchors must show.
func (s *sim) checkAnchors(journals map[uuid.UUID][]journal.Record) {
	set := evidence.NewSet([]ed25519.PublicKey{anchorKey.Public().(ed25519.PublicKey)})
	for i, line := range s.anchors {
		set.Add("number "+strconv.Itoa(i), line)
	}
	for _, p := range set.Problems() {
		s.violate(uuid.Nil, "30: %s", p.Text)
	}
	ids := slices.SortedFunc(maps.Keys(journals), journal.CompareID)
	for _, id := range ids {
		if _, gone := s.gone[id]; gone {
			continue // Missing must know that retention may delete it
		}
		for _, p := range set.Check(id, journals[id]) {
			s.violate(id, "30: %s", p.Text)
		}
	}
	for _, p := range set.Missing(s.now) {
		// The end of a saga is not anchored if its node died just after it.
		if _, gone := s.gone[p.Saga]; !gone || !strings.Contains(p.Text, "no anchor says") {
			s.violate(p.Saga, "30: %s", p.Text)
		}
	}
	for _, id := range ids {
		n := set.Anchored(id)
		if n == 0 || n > int64(len(journals[id])) {
			continue
		}
		if len(set.Check(id, rewritten(id, journals[id], n))) == 0 {
			s.violate(id, "30: its anchors do not show that record %d was rewritten", n)
		}
		if len(set.Check(id, journals[id][:n-1])) == 0 {
			s.violate(id, "30: its anchors do not show that record %d and all later ones were removed", n)
		}
		return
	}
}

// rewritten returns a journal with other data in a record, and with a whole hash chain.
func rewritten(id uuid.UUID, records []journal.Record, seq int64) []journal.Record {
	records = slices.Clone(records)
	records[seq-1].Data = json.RawMessage(`{"amount":"99.50"}`)
	for i := seq - 1; i < int64(len(records)); i++ {
		var prev []byte
		if i > 0 {
			prev = records[i-1].Hash
		}
		journal.Seal(id, prev, &records[i])
	}
	return records
}
