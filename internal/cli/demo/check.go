package demo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/invariant"
	"recourse/internal/story"
)

// settle is the maximum time for a due wake-up to happen.
const settle = 5 * time.Second

// check compares the journals with the world's ledger.
func (d *player) check() error {
	var list []invariant.Saga
	for _, p := range d.sagas {
		records, err := d.client.Journal(p.id)
		if err != nil {
			return err
		}
		list = append(list, invariant.Saga{ID: uuid.FromStringOrNil(p.id), Definition: d.defs[p.definition], Records: records})
	}
	ledger, err := d.control.Ledger(d.Ctx, 0, 0)
	if err != nil {
		return err
	}
	d.Printf("\n%s\n", story.Paint("What the world says happened", story.Strong, d.Colour))
	d.Printf("Its ledger knows nothing of journals. Net is what was done and not undone.\n\n")
	d.balance(ledger)
	checker := invariant.New(invariant.Config{Ledger: invariant.OfWorld(ledger), Clock: time.Now().Add(-settle), OneProgram: true})
	for _, s := range list {
		checker.Add(checker.Check(s))
	}
	if found := checker.End(); len(found) > 0 {
		d.Printf("\n")
		for _, v := range found {
			d.Printf("%s\n", story.Paint("✗ "+v.String(), story.Bad, d.Colour))
		}
		return cli.Exit(cli.Failed, errors.New("the ledger and the journals disagree: see above"))
	}
	d.Printf("\nChecked over %d sagas and %d ledger entries:\n", len(list), len(ledger))
	for _, c := range checker.Coverage() {
		if c.Checked {
			d.Printf("  %s %s\n", story.Paint("✓", story.Good, d.Colour), invariant.Names[c.N])
		}
	}
	d.Printf("%s\n", story.Paint("all invariants hold", story.Good, d.Colour))
	return nil
}

func (d *player) balance(ledger world.Ledger) {
	sums := ledger.Balance()
	var rows [][]string
	for _, service := range slices.Sorted(maps.Keys(sums)) {
		b := sums[service]
		if b.Effects == 0 {
			continue
		}
		requests := 0
		for _, e := range ledger.Service(service).Requests() {
			if e.Method != "GET" {
				requests++
			}
		}
		rows = append(rows, []string{service, strconv.Itoa(requests), strconv.Itoa(b.Effects), strconv.Itoa(b.Undone), strconv.Itoa(b.Net)})
	}
	rows = append(rows, []string{"all", "", "", "", fmt.Sprint(sums.Net())})
	d.Table([]cli.Column{{Head: "SERVICE"}, {Head: "WRITES RECEIVED"}, {Head: "EFFECTS"}, {Head: "UNDONE"}, {Head: "NET"}}, rows)
}
