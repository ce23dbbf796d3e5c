package doctor

import (
	"context"
	"fmt"

	"recourse/catalog"
	"recourse/internal/cli"
	"recourse/journal"
	"recourse/saga/kinds"
)

// noKeys checks whether serve starts on a database that it has to make first.
func (d *doctor) noKeys(ctx context.Context) {
	if _, err := d.cmd.Loopback(); err != nil {
		return // already reported
	}
	if _, err := d.cmd.CheckAccess(ctx, nil); err != nil {
		d.failed("keys", err)
	}
}

// keys checks the API keys.
func (d *doctor) keys(ctx context.Context, store journal.Store) {
	if _, err := d.cmd.Loopback(); err != nil {
		return // already reported
	}
	access, err := d.cmd.CheckAccess(ctx, store)
	if err != nil {
		d.failed("keys", err)
		return
	}
	list, err := store.ListKeys(ctx)
	if err != nil {
		d.failed("keys", err)
		return
	}
	good := 0
	for _, k := range list {
		left := k.ExpiresAt.Sub(d.now())
		switch who := fmt.Sprintf("%s (%s, %s)", k.ID, k.Name, k.Role); {
		case k.ExpiresAt.IsZero() || left > keySoon:
			good++
		case left <= 0:
			d.warn("keys", who+" has expired", "revoke it: recourse keys revoke "+k.ID.String())
		default:
			good++
			d.warn("keys", who+" expires in "+cli.Span(left), "make another with recourse keys create before then")
		}
	}
	switch {
	case access.Required && good == 0:
		d.wrong("keys", "all have expired, and "+d.cmd.Listen+" requires one", "make another with recourse keys create")
	case access.Required:
		d.ok("keys", "%s valid; %s requires one", cli.Count(good, "key")+map[bool]string{true: " is", false: " are"}[good == 1], d.cmd.Listen)
	default:
		d.ok("keys", "not required on %s, which only this machine and its proxies can reach", d.cmd.Listen)
	}
}

// documentsPage is the number of definitions that are read at once.
const documentsPage = 200

// definitions checks that the secrets of published definitions exist.
func (d *doctor) definitions(ctx context.Context, store journal.Store) {
	known := catalog.New(store, catalog.Options{Kinds: kinds.All()})
	n, bad := 0, 0
	for after := ""; ; {
		page, err := store.Documents(ctx, catalog.Kind, after, documentsPage)
		if err != nil {
			d.failed("definitions", err)
			return
		}
		for _, doc := range page {
			n++
			after = doc.Name
			def, err := known.Definition(ctx, doc.Name, doc.Version)
			if err != nil {
				d.warn("definitions", fmt.Sprintf("%s v%d cannot be read by this program: %v", doc.Name, doc.Version, err), "run the release that published it, or a later one")
				bad++
				continue
			}
			for _, name := range def.Secrets {
				if d.secrets == nil {
					continue
				}
				if _, err := d.secrets.Get(name); err != nil {
					d.failed("definitions", fmt.Errorf("%s v%d: %w", doc.Name, doc.Version, err))
					bad++
				}
			}
		}
		if len(page) < documentsPage {
			break
		}
	}
	if bad == 0 {
		d.ok("definitions", "%s; the secrets that they name are there", cli.Count(n, "definition"))
	}
}
