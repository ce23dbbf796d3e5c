package ui

import (
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

// dossier is all that the API says about one saga, and what follows from it.
type dossier struct {
	Saga    sagaJSON
	Records []journal.Record
	Steps   []saga.StepView
	Entries []entry
	Source  string // of the definition; "" if it cannot be read
	Started saga.StartedData
	Def     *saga.Definition // nil: this program cannot use it
	machine *saga.Machine    // nil: the records cannot be followed
	Unread  string           // why, "" if they can
	now     time.Time
}

// sagaJSON is GET /v1/sagas/{id}, with what later releases of the API may say.
type sagaJSON struct {
	saga.View
	TraceID string `json:"trace_id"`
	Cost    struct {
		saga.CostView
		Models map[string]modelCost `json:"models"`
	} `json:"cost"`
}

// modelCost is what one language model was used for.
type modelCost struct {
	Input  int64  `json:"input"`
	Output int64  `json:"output"`
	Spent  string `json:"spent"`
}

// dossier reads a saga. Errors are the API's, and about the saga itself: what else cannot be read is missing.
func (v *visit) dossier(id string) (*dossier, error) {
	d := &dossier{now: v.cfg.Now()}
	if err := v.head(id, d); err != nil {
		return nil, err
	}
	at, err := uuid.FromString(d.Saga.ID)
	if err != nil {
		return nil, err
	}
	if d.Records, err = v.journal(id); err != nil {
		return nil, err
	}
	var inbox struct {
		Data []entry `json:"data"`
	}
	if _, err := v.api.get("/v1/inbox?limit=100&saga="+id, &inbox); err == nil {
		d.Entries = inbox.Data
	}
	var doc struct {
		Source string `json:"source"`
	}
	if _, err := v.api.get(path("v1", "definitions", d.Saga.Definition, "versions", d.Saga.Version), &doc); err == nil {
		d.Source = doc.Source
	}
	if len(d.Records) > 0 {
		_ = json.Unmarshal(d.Records[0].Data, &d.Started) // what cannot be read is in the journal's page
	}
	if err := d.follow(v.r.Context(), v.cfg, at); err != nil && d.Unread == "" {
		d.Unread = err.Error()
	}
	return d, nil
}

// head reads the saga itself. Of one that this program cannot read the list of sagas knows something.
func (v *visit) head(id string, d *dossier) error {
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
			d.Saga.View, d.Saga.Cost.CostView = s, s.Cost
			return nil
		}
	}
	return err
}

// unreadable reports whether the API says that this program cannot read a saga's journal, or its definition.
func unreadable(err error) bool {
	var p *problem
	return errors.As(err, &p) && (strings.HasSuffix(p.Type, ":journal_unreadable") || strings.HasSuffix(p.Type, ":definition_unusable"))
}

// follow replays the records. A saga over which the program panics is one that it cannot follow.
func (d *dossier) follow(ctx context.Context, cfg Config, id uuid.UUID) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the program fails over it: %v", v)
		}
	}()
	var version saga.Version
	if err := version.UnmarshalText([]byte(d.Saga.Version)); err != nil {
		return err
	}
	def, err := cfg.Definitions.Definition(ctx, d.Saga.Definition, int(version))
	if err != nil {
		return err
	}
	d.Def = def
	m, err := saga.Replay(def, id, d.Records)
	if err != nil {
		return err
	}
	if d.Steps, err = saga.Steps(def, m, d.Records); err != nil {
		return err
	}
	d.machine = m
	return nil
}

// journal reads all of a saga's records, those that have not been read lately.
func (v *visit) journal(id string) ([]journal.Record, error) {
	known := v.shelf.take(id)
	after := int64(0)
	if n := len(known); n > 0 {
		after = known[n-1].Seq
	}
	more, err := v.records(id, after, 0)
	if err != nil {
		return nil, err
	}
	all := append(known, more...)
	v.shelf.keep(id, all)
	return all, nil
}

// records reads a saga's journal after a seq: limit records, or with 0 all.
func (v *visit) records(id string, after int64, limit int) ([]journal.Record, error) {
	var all []journal.Record
	for {
		size := recordsPage
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		var page struct {
			Data []journal.Record `json:"data"`
		}
		at := path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(after, 10) + "&limit=" + strconv.Itoa(size)
		if _, err := v.api.do(v.r.Context(), http.MethodGet, at, nil, http.Header{"Accept": {"application/json"}}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if len(page.Data) < size || limit > 0 && len(all) >= limit {
			return all, nil
		}
		after = page.Data[len(page.Data)-1].Seq
	}
}

// ended reports whether nothing more can happen to the saga.
func (d *dossier) ended() bool { return d.Saga.Status.Terminal() }

// allows reports whether the saga would carry out an order as it is now. Where that is not known, the API decides.
func (d *dossier) allows(c saga.Command) bool {
	if d.ended() {
		return false
	}
	if d.machine == nil {
		return true
	}
	_, err := d.machine.Admit(uuid.Nil, c)
	return err == nil
}

// underWay reports whether an attempt has not ended, so that the picture grows by itself.
func (d *dossier) underWay() bool { return d.machine != nil && len(d.machine.Open()) > 0 }
