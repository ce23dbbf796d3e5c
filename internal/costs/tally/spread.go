package tally

import (
	"strconv"

	"recourse/retry"
)

// Bucket counts sagas that cost at least From and less than To.
type Bucket struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Sagas int    `json:"sagas"`
}

// mostBuckets is the largest number of buckets of a distribution.
const mostBuckets = 20

// ladders are the steps of a decade that buckets can have, nearly even on a logarithmic scale:
// preferred numbers, the finest first.
var ladders = [][]string{
	{"1", "1.1", "1.2", "1.3", "1.5", "1.6", "1.8", "2", "2.2", "2.4", "2.7", "3", "3.3", "3.6", "3.9", "4.3", "4.7", "5.1", "5.6", "6.2", "6.8", "7.5", "8.2", "9.1"},
	{"1", "1.2", "1.5", "1.8", "2.2", "2.7", "3.3", "3.9", "4.7", "5.6", "6.8", "8.2"},
	{"1", "1.5", "2.2", "3.3", "4.7", "6.8"},
	{"1", "2", "5"},
	{"1"},
}

// spread distributes sorted amounts over buckets of the finest ladder that needs few enough of
// them. Amounts of zero have a bucket of their own. The result is nil if nothing costs anything.
func spread(sorted []retry.Money) []Bucket {
	free := 0
	for free < len(sorted) && sorted[free].IsZero() {
		free++
	}
	if free == len(sorted) {
		return nil
	}
	room := mostBuckets
	if free > 0 {
		room--
	}
	for _, ladder := range ladders {
		edges := climb(ladder, sorted[free], sorted[len(sorted)-1], room)
		if edges == nil {
			continue
		}
		if free > 0 {
			edges = append([]retry.Money{{}}, edges...)
		}
		return fill(edges, sorted)
	}
	return nil
}

// climb returns the edges of at most room buckets from low to high; nil if that is not enough.
func climb(ladder []string, low, high retry.Money, room int) (edges []retry.Money) {
	for decade := decades(low); ; decade++ {
		for _, step := range ladder {
			edge, err := retry.Amount(step+"e"+strconv.Itoa(decade), low.Currency)
			if err != nil {
				return nil
			}
			if len(edges) == 1 && edge.Cmp(low) <= 0 {
				edges = edges[:0]
			}
			if edges = append(edges, edge); len(edges) > room+1 {
				return nil
			}
			if edge.Cmp(high) > 0 {
				return edges
			}
		}
	}
}

func fill(edges, sorted []retry.Money) []Bucket {
	list := make([]Bucket, len(edges)-1)
	for i := range list {
		list[i] = Bucket{From: edges[i].Decimal(), To: edges[i+1].Decimal()}
		for len(sorted) > 0 && sorted[0].Cmp(edges[i+1]) < 0 {
			list[i].Sagas++
			sorted = sorted[1:]
		}
	}
	return list
}
