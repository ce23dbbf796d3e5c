package linearizability

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// keys checks that commands with one key have one response.
func (c *checker) keys() {
	byKey := map[string][]Op{}
	for _, o := range c.ops {
		if o.Do == Command && o.Key != "" {
			byKey[o.Key] = append(byKey[o.Key], o)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		c.key(key, byKey[key])
	}
}

func (c *checker) key(key string, ops []Op) {
	replayed := ""
	for _, o := range ops {
		// Such an answer is a start's.
		if a := o.Answer; a.ok() && a.Replayed && !(o.Verb() == "retry" && a.Status == 200) {
			replayed = fmt.Sprint(a.Status, a.Body)
		}
	}
	var history []porcupine.Operation
	for _, o := range ops {
		a := o.Answer
		k := kept{answer: fmt.Sprint(a.Status, a.Body), replayed: a.Replayed, unknown: a.unknown(), described: strings.Join(strings.Fields(o.String()), " ")}
		back := int64(o.Return)
		switch {
		case k.unknown && replayed == "":
			continue
		case k.unknown:
			k.answer, back = replayed, math.MaxInt64
		case a.Code == "key_in_flight", o.Verb() == "retry" && a.Replayed && a.Status == 200:
			continue
		case !a.ok():
			k.answer = ""
		}
		history = append(history, porcupine.Operation{ClientId: o.Client, Input: k, Call: int64(o.Call), Return: back})
	}
	c.linearize(replies, history, "no order explains the answers under key "+key, ops)
}
