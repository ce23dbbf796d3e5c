package packed

import (
	"fmt"
	"math"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Collection has the rows of sagas, which are added in order.
type Collection struct {
	sagas []uuid.UUID
	rows  map[uuid.UUID][]Row
	left  uint64
	cut   bool // a saga was left out
}

// NewCollection returns a Collection for records whose data has up to this many bytes. math.MaxInt
// means that there is no limit.
func NewCollection(bytes int) *Collection {
	// A value is hardly larger than the data of its records. Twice MaxInt/2 does not overflow.
	return &Collection{rows: make(map[uuid.UUID][]Row), left: uint64(min(max(bytes, 0), math.MaxInt/2))*2 + 1<<20}
}

// Add adds the next row. It returns false if its saga surely has too many bytes; that saga is left
// out, and nothing more may be added.
func (c *Collection) Add(saga uuid.UUID, r Row) bool {
	n := uint64(len(r.Value))
	if n > c.left {
		if _, begun := c.rows[saga]; begun {
			delete(c.rows, saga)
			c.sagas = c.sagas[:len(c.sagas)-1]
		}
		c.cut = true
		return false
	}
	c.left -= n
	if c.rows[saga] == nil {
		c.sagas = append(c.sagas, saga)
	}
	c.rows[saga] = append(c.rows[saga], r)
	return true
}

// Of returns the rows of a saga.
func (c *Collection) Of(saga uuid.UUID) []Row { return c.rows[saga] }

// Begins adds up to limit of the first records of each saga to out, from its first rows. It ends
// before the first saga with which the data of all of them would be more than bytes, and returns
// how many bytes are left, or less than 0 if it has ended there.
func (c *Collection) Begins(out map[uuid.UUID][]journal.Record, limit, bytes int, find Finder) (left int, err error) {
	for _, saga := range c.sagas {
		records, err := Records(saga, c.rows[saga], 0, limit, find)
		if err != nil {
			return 0, fmt.Errorf("saga %s: %w", saga, err)
		}
		for i := range records {
			bytes -= len(records[i].Data)
		}
		if bytes < 0 {
			return bytes, nil
		}
		if len(records) > 0 {
			out[saga] = records
		}
	}
	if c.cut {
		return -1, nil
	}
	return bytes, nil
}
