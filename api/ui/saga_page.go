package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api/rest"
	"recourse/api/ui/activity"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// recordsPage is the maximum of records per response of the API.
const recordsPage = 1000

// sagaPage is the API's data about one saga, and the state derived from it.
type sagaPage struct {
	Saga    machine.View
	Records []journal.Record
	Steps   []machine.StepView
	Entries []entry
	Source  string // the definition's text; "" if it cannot be read
	Started saga.StartedData
	Def     *saga.Definition // nil if this program cannot use it
	machine *machine.Machine // nil if the records cannot be applied; not to be used after request.release
	Unread  string           // why they cannot be applied; "" if they can
	Session *sessionView     // nil if the saga is not a session. Not to be used after request.release
	now     time.Time
	key     string // request.formKey
}

// readSaga reads a saga. It returns errors about the saga itself; other data that cannot be read is
// missing from the result.
//
// readSaga derives the page from the journal, as the API derives its responses: separate calls to
// the API would read the whole journal again for each rendering.
func (v *request) readSaga(id string) (*sagaPage, error) {
	v.release()
	v.saga = v.journals.take(id)
	d := &sagaPage{now: v.cfg.Now()}
	var err error
	if d.key, err = v.formKey(); err != nil {
		return nil, err
	}
	if err := v.journal(v.saga); err != nil {
		return nil, err
	}
	d.Records = v.saga.records
	d.Started, _ = history.Started(d.Records) // the journal's page shows unreadable data
	if err := d.follow(v.r.Context(), v.cfg, v.saga); err != nil {
		d.Unread = err.Error()
		if err := v.head(id, d); err != nil {
			return nil, err
		}
	}
	if d.ended() && d.Saga.Archived == nil {
		d.Saga.Archived = v.archived(id)
	}
	var inbox struct {
		Data []entry `json:"data"`
	}
	if _, err := v.api.Get("/v1/inbox?limit=100&saga="+id, &inbox); err == nil {
		d.Entries = inbox.Data
	}
	if d.machine != nil && d.quarantined() { // journals do not record quarantine
		d.Saga.Status, d.Saga.WakeAt = saga.Stuck, nil
	}
	var doc struct {
		Source string `json:"source"`
	}
	if _, err := v.api.Get(rest.Path("v1", "definitions", d.Saga.Definition, "versions", d.Saga.Version), &doc); err == nil {
		d.Source = doc.Source
	}
	return d, nil
}

// archived says where a saga that has ended is in the archive, which journals do not record; nil:
// it is in the database, or that is unknown, and the API refuses the commands.
func (v *request) archived(id string) *machine.Archived {
	u, err := uuid.FromString(id)
	if err != nil {
		return nil
	}
	// The list has the sagas of the database, and reads no journal. Those that were started in the
	// same millisecond are few.
	at := journal.IDTime(u)
	q := url.Values{"q": {id}, "limit": {"1"},
		"started_after":  {at.Add(-time.Millisecond).Format(journal.TimeFormat)},
		"started_before": {at.Add(time.Millisecond).Format(journal.TimeFormat)}}
	var list struct {
		Data []machine.View `json:"data"`
	}
	if _, err := v.api.Get("/v1/sagas?"+q.Encode(), &list); err == nil && len(list.Data) > 0 && list.Data[0].ID == id {
		return nil
	}
	var whole machine.View
	if _, err := v.api.Get(rest.Path("v1", "sagas", id), &whole); err != nil {
		return nil
	}
	return whole.Archived
}

// release gives the saga back to the cache, for other requests.
func (v *request) release() {
	if v.saga != nil {
		v.saga.give()
		v.saga = nil
	}
}

// head reads the API's view of a saga whose records cannot be applied. If the API cannot read it
// either, the list of sagas still has its row.
func (v *request) head(id string, d *sagaPage) error {
	_, err := v.api.Get(rest.Path("v1", "sagas", id), &d.Saga)
	if !unreadable(err) {
		return err
	}
	d.Unread = err.Error()
	var list struct {
		Data []machine.View `json:"data"`
	}
	if _, listErr := v.api.Get("/v1/sagas?q="+url.QueryEscape(id), &list); listErr != nil {
		return listErr
	}
	for _, s := range list.Data {
		if s.ID == id {
			d.Saga = s
			return nil
		}
	}
	return err
}

// unreadable reports whether the API says that this program cannot read a saga's journal or its
// definition.
func unreadable(err error) bool {
	var p *rest.Problem
	return errors.As(err, &p) && (strings.HasSuffix(p.Type, ":journal_unreadable") || strings.HasSuffix(p.Type, ":definition_unusable"))
}

// follow applies the records. A saga over which the program panics counts as unreadable.
func (d *sagaPage) follow(ctx context.Context, cfg Config, k *followed) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the program panics when it reads it: %v", v)
		}
		if err != nil {
			k.machine = nil // it may be inconsistent
		}
	}()
	if k.machine == nil {
		id, err := uuid.FromString(k.id)
		if err != nil {
			return err
		}
		def, err := cfg.Definitions.Of(ctx, &d.Started)
		if err != nil {
			return err
		}
		k.machine, k.log, k.activity = machine.New(def, id), history.Steps{}, activity.Log{}
	}
	d.Def = k.machine.Definition()
	fresh := k.records[k.machine.Seq():]
	for i := range fresh {
		if err := k.machine.Apply(fresh[i]); err != nil {
			return err
		}
		if err := k.log.Add(&fresh[i]); err != nil {
			return err
		}
		if d.Def.Session != nil {
			k.activity.Add(&fresh[i])
		}
	}
	if d.Def.Session != nil {
		d.readSession(k)
	}
	d.Saga, d.Steps = k.machine.View(), machine.StepsOf(k.machine, &k.log)
	d.machine = k.machine
	return nil
}

// journal reads the new records of a saga's journal. If the journal differs from the cached
// records, the database was restored, and the whole journal is read again.
func (v *request) journal(k *followed) error {
	if n := len(k.records); n > 0 {
		last := k.records[n-1]
		more, err := v.api.Records(v.r.Context(), k.id, last.Seq-1)
		if err != nil {
			return err
		}
		if len(more) > 0 && more[0].Seq == last.Seq && bytes.Equal(more[0].Hash, last.Hash) {
			k.add(more[1:])
			return nil
		}
		k.forget()
	}
	all, err := v.api.Records(v.r.Context(), k.id, 0)
	if err != nil {
		return err
	}
	k.add(all)
	return nil
}

// records reads up to limit records of a saga's journal after a seq.
func (v *request) records(id string, after int64, limit int) ([]journal.Record, error) {
	var all []journal.Record
	for {
		size := min(recordsPage, limit-len(all))
		var page struct {
			Data []journal.Record `json:"data"`
		}
		at := rest.Path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(after, 10) + "&limit=" + strconv.Itoa(size)
		if _, err := v.api.Do(v.r.Context(), http.MethodGet, at, nil, http.Header{"Accept": {"application/json"}}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if len(page.Data) < size || len(all) >= limit {
			return all, nil
		}
		after = page.Data[len(page.Data)-1].Seq
	}
}

// ended reports whether the saga has ended.
func (d *sagaPage) ended() bool { return d.Saga.Status.Terminal() }

// allows reports whether the saga would apply a command in its present state. If that is unknown,
// it is true, and the API decides.
func (d *sagaPage) allows(c saga.Command) bool {
	if d.ended() {
		return false
	}
	if d.machine == nil {
		return true
	}
	_, err := d.machine.Validate(uuid.Nil, c)
	return err == nil
}

// inFlight reports whether an attempt is in flight, so that the picture changes with time.
func (d *sagaPage) inFlight() bool { return d.machine != nil && len(d.machine.InFlight()) > 0 }
