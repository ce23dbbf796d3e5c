package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"recourse/catalog"
	"recourse/journal"
	"recourse/migrations"
	"recourse/saga/kinds"
)

// Bounds of what is still well.
const (
	clockApart = 2 * time.Second
	keySoon    = 7 * 24 * time.Hour
	diskLow    = 1 << 30
	diskFull   = 100 << 20
	oldestPG   = 14 // which gets fixes
)

// database looks at the database, and at what is in it.
func (d *doctor) database(ctx context.Context) {
	if isPostgres(d.cmd.Database) {
		if !d.postgres(ctx) {
			return
		}
	} else if !d.sqlite() {
		return
	}
	store := d.schema(ctx)
	if store == nil {
		return
	}
	defer store.Close()
	if err := store.Ping(ctx); err != nil {
		d.wrong("database", "takes no writes: "+err.Error(), "check the user's rights, the disk, and that it is no read-only copy")
	} else {
		d.ok("database", "takes writes")
	}
	d.keys(ctx, store)
	d.definitions(ctx, store)
}

// schema opens the database if its tables are this program's.
func (d *doctor) schema(ctx context.Context) journal.Store {
	m, err := databaseOf(d.cmd.Database, false)
	if err != nil {
		d.failed("schema", err)
		return nil
	}
	at, newest, err := migrations.Version(ctx, m)
	if err != nil {
		d.failed("schema", databaseError(d.cmd.Database, err))
		return nil
	}
	switch err := migrations.Check(ctx, m); {
	case errors.Is(err, migrations.ErrBehind):
		d.warn("schema", fmt.Sprintf("at step %d of %d", at, newest), "`recourse migrate up` brings it up to date; serve does it by itself")
		return nil
	case err != nil:
		d.failed("schema", err)
		return nil
	}
	d.ok("schema", "at step %d, which is this program's", at)
	store, err := openStore(ctx, d.cmd.Database, false)
	if err != nil {
		d.failed("database", err)
		return nil
	}
	return store
}

// sqlite looks at a file. It is false if there is nothing more to look at.
func (d *doctor) sqlite() bool {
	path := d.cmd.Database
	if free, ok := freeBytes(filepath.Dir(path)); ok {
		switch said := fmt.Sprintf("%d MB free where the database is", free>>20); {
		case free < diskFull:
			d.wrong("disk", said, "make room: a full disk stops every saga")
		case free < diskLow:
			d.warn("disk", said, "make room before it is full, which stops every saga")
		default:
			d.ok("disk", "%s", said)
		}
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			d.failed("database", fileUsable(path, false))
		} else {
			d.warn("database", "there is no "+path+" yet", "serve makes it")
		}
		return false
	}
	if err := fileUsable(path, false); err != nil {
		d.failed("database", err)
		return false
	}
	head := make([]byte, 20)
	f, err := os.Open(path)
	if err != nil {
		d.failed("database", err)
		return false
	}
	defer f.Close()
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0:
		d.warn("database", path+" is empty", "serve makes its tables")
		return false
	case err != nil || !bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		d.wrong("database", path+" is not a SQLite file", "name another with --database")
		return false
	case head[18] != 2 || head[19] != 2: // the file format's versions: 2 is WAL
		d.warn("database", path+" has no write-ahead log", "serve turns it on; if it does not stay, something else opens the file")
	default:
		d.ok("database", "SQLite, %s, with a write-ahead log; serve syncs each commit", path)
	}
	return true
}

// postgres looks at a server. It is false if there is nothing more to look at.
func (d *doctor) postgres(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	cfg, err := pgxpool.ParseConfig(d.cmd.Database) // which knows the pool's options too
	if err != nil {
		d.failed("database", databaseError(d.cmd.Database, err))
		return false
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		d.failed("database", databaseError(d.cmd.Database, err))
		return false
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var number, fsync, synchronous, pages string
	var standby bool
	began := time.Now()
	var there time.Time
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num'), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('full_page_writes'), pg_is_in_recovery(), clock_timestamp()`).Scan(&number, &fsync, &synchronous, &pages, &standby, &there)
	if err != nil {
		d.failed("database", databaseError(d.cmd.Database, err))
		return false
	}
	version, _ := strconv.Atoi(number)
	if major := version / 10_000; major < oldestPG {
		d.warn("database", fmt.Sprintf("PostgreSQL %d gets no fixes any more", major), "move to a later one")
	} else {
		d.ok("database", "PostgreSQL %d", major)
	}
	if standby {
		d.wrong("database", "is a standby, which takes no writes", "name the primary with --database")
	}
	d.durable("fsync", fsync)
	d.durable("full_page_writes", pages)
	if synchronous == "off" {
		d.warn("database", "synchronous_commit is off: what was acknowledged may be lost in a crash, and requests are sent twice or not told of",
			"turn it on for recourse's user: ALTER ROLE … SET synchronous_commit = on")
	}
	asked := time.Since(began)
	if apart := there.Sub(began.Add(asked / 2)); apart.Abs() > clockApart+asked/2 {
		d.warn("clock", fmt.Sprintf("the database's clock is %s from this machine's", apart.Abs().Round(time.Second)),
			"set both by NTP; sagas go by the database's, but logs and keys' expiry by this one")
	} else {
		d.ok("clock", "the database's and this machine's agree")
	}
	return true
}

func (d *doctor) durable(setting, is string) {
	if is != "on" {
		d.wrong("database", setting+" is "+is+": a crash of its machine may lose, or destroy, what was written", "turn it on in postgresql.conf")
	}
}

// keys looks at the API keys.
func (d *doctor) keys(ctx context.Context, store journal.Store) {
	guarded, err := d.cmd.guarded(ctx, store)
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
		left := time.Until(k.ExpiresAt)
		switch who := fmt.Sprintf("%s (%s, %s)", k.ID, k.Name, k.Role); {
		case k.ExpiresAt.IsZero() || left > keySoon:
			good++
		case left <= 0:
			d.warn("keys", who+" has expired", "revoke it: recourse keys revoke "+k.ID.String())
		default:
			good++
			d.warn("keys", who+" expires in "+span(left), "make another with recourse keys create before then")
		}
	}
	if guarded {
		d.ok("keys", "%s good; %s asks for one", count(good, "key")+map[bool]string{true: " is", false: " are"}[good == 1], d.cmd.Listen)
	} else {
		d.ok("keys", "not asked for on %s, which only this machine reaches", d.cmd.Listen)
	}
}

// definitions looks for the secrets that what is published may use.
func (d *doctor) definitions(ctx context.Context, store journal.Store) {
	known := catalog.New(store, catalog.Options{Kinds: kinds.All()})
	n, bad := 0, 0
	for after := ""; ; {
		page, err := store.Documents(ctx, catalog.Kind, after, headsPage)
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
		if len(page) < headsPage {
			break
		}
	}
	if bad == 0 {
		d.ok("definitions", "%s; the secrets that they name are there", count(n, "definition"))
	}
}
