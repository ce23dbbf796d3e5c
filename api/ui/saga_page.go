package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// recordsPage is how many records the API gives at once, at most.
const recordsPage = 1000

// sagaPage is all that the API says about one saga, and what follows from it.
type sagaPage struct {
	Saga    saga.View
	Records []journal.Record
	Steps   []saga.StepView
	Entries []entry
	Source  string // of the definition; "" if it cannot be read
	Started saga.StartedData
	Def     *saga.Definition // nil: this program cannot use it
	machine *saga.Machine    // nil: the records cannot be followed. Not to be used once the visit has let it go
	Unread  string           // why, "" if they can
	now     time.Time
}

// dossier reads a saga. Errors are the API's, and about the saga itself: what else cannot be read
// is missing.
//
// dossier derives a saga's page from its journal, as the API derives its answers. Calls to the API
// would read the whole journal again for each picture.
func (v *request) dossier(id string) (*sagaPage, error) {
	v.let()
	v.saga = v.shelf.take(id)
	d := &sagaPage{now: v.cfg.Now()}
	if err := v.journal(v.saga); err != nil {
		return nil, err
	}
	d.Records = v.saga.records
	if len(d.Records) > 0 {
		_ = json.Unmarshal(d.Records[0].Data, &d.Started) // what cannot be read is in the journal's page
	}
	if err := d.follow(v.r.Context(), v.cfg, v.saga); err != nil {
		d.Unread = err.Error()
		if err := v.head(id, d); err != nil {
			return nil, err
		}
	}
	var inbox struct {
		Data []entry `json:"data"`
	}
	if _, err := v.api.get("/v1/inbox?limit=100&saga="+id, &inbox); err == nil {
		d.Entries = inbox.Data
	}
	if d.machine != nil && d.quarantined() { // of which the journal knows nothing
		d.Saga.Status, d.Saga.WakeAt = saga.Stuck, nil
	}
	var doc struct {
		Source string `json:"source"`
	}
	if _, err := v.api.get(path("v1", "definitions", d.Saga.Definition, "versions", d.Saga.Version), &doc); err == nil {
		d.Source = doc.Source
	}
	return d, nil
}

// let gives back what a dossier was made of, for others to use.
func (v *request) let() {
	if v.saga != nil {
		v.saga.give()
		v.saga = nil
	}
}

// head reads of a saga whose records cannot be followed what the API says; of one that the API
// cannot read either, the list of sagas knows something.
func (v *request) head(id string, d *sagaPage) error {
	_, err := v.api.get(path("v1", "sagas", id), &d.Saga)
	if !unreadable(err) {
		return err
	}
	d.Unread = err.Error()
	var list struct {
		Data []saga.View `json:"data"`
	}
	if _, listErr := v.api.get("/v1/sagas?q="+url.QueryEscape(id), &list); listErr != nil {
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

// unreadable reports whether the API says that this program cannot read a saga's journal, or its
// definition.
func unreadable(err error) bool {
	var p *problem
	return errors.As(err, &p) && (strings.HasSuffix(p.Type, ":journal_unreadable") || strings.HasSuffix(p.Type, ":definition_unusable"))
}

// follow works out what the records mean. A saga over which the program panics is one that it
// cannot follow.
func (d *sagaPage) follow(ctx context.Context, cfg Config, k *followed) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the program fails over it: %v", v)
		}
		if err != nil {
			k.machine = nil // it may be half way
		}
	}()
	if k.machine == nil {
		id, err := uuid.FromString(k.id)
		if err != nil {
			return err
		}
		def, err := cfg.Definitions.Definition(ctx, d.Started.Definition, int(d.Started.Version))
		if err != nil {
			return err
		}
		k.machine, k.log = saga.New(def, id), saga.StepLog{}
	}
	d.Def = k.machine.Definition()
	for _, r := range k.records[k.machine.Seq():] {
		if err := k.machine.Apply(r); err != nil {
			return err
		}
		if err := k.log.Add(r); err != nil {
			return err
		}
	}
	d.Saga, d.Steps = k.machine.View(), k.log.Steps(k.machine)
	d.machine = k.machine
	return nil
}

// journal reads what a saga's journal has grown by. A journal that is not what it was is of a
// database that was restored: all of it is read anew.
func (v *request) journal(k *followed) error {
	if n := len(k.records); n > 0 {
		last := k.records[n-1]
		more, err := v.api.records(v.r.Context(), k.id, last.Seq-1)
		if err != nil {
			return err
		}
		if len(more) > 0 && more[0].Seq == last.Seq && bytes.Equal(more[0].Hash, last.Hash) {
			k.add(more[1:])
			return nil
		}
		k.forget()
	}
	all, err := v.api.records(v.r.Context(), k.id, 0)
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
		at := path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(after, 10) + "&limit=" + strconv.Itoa(size)
		if _, err := v.api.do(v.r.Context(), http.MethodGet, at, nil, http.Header{"Accept": {"application/json"}}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if len(page.Data) < size || len(all) >= limit {
			return all, nil
		}
		after = page.Data[len(page.Data)-1].Seq
	}
}

// ended reports whether nothing more can happen to the saga.
func (d *sagaPage) ended() bool { return d.Saga.Status.Terminal() }

// allows reports whether the saga would carry out an order as it is now. Where that is not known,
// the API decides.
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

// inFlight reports whether an attempt has not ended, so that the picture grows by itself.
func (d *sagaPage) inFlight() bool { return d.machine != nil && len(d.machine.InFlight()) > 0 }
