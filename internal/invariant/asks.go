package invariant

import (
	"encoding/json"
	"path"

	"recourse/journal"
	"recourse/saga"
)

// mayAsk checks the part of invariant 26 about requests to language models: a session asks only the
// models that it names, if it names some.
func (c *sagaCheck) mayAsk(t *sagaState, r journal.Record, d *saga.CalledData) {
	if t.Definition == nil || t.Definition.Session == nil || len(t.Definition.Session.Data.Models) == 0 {
		return
	}
	var q struct{ Model string }
	if err := json.Unmarshal(d.Input, &q); err != nil {
		c.say(26, r.Seq, "record %d asks a model, and its input cannot be read: %v", r.Seq, err)
		return
	}
	if q.Model == "" { // such as the list of models
		return
	}
	for _, pattern := range t.Definition.Session.Data.Models {
		if ok, err := path.Match(pattern, q.Model); ok && err == nil {
			return
		}
	}
	c.say(26, r.Seq, "record %d asks %q, which is not a model for the session", r.Seq, q.Model)
}
