package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"recourse/internal/cli/database"
	"recourse/journal"
	"recourse/migrations"
)

// Limits below which a check warns.
const (
	clockApart = 2 * time.Second
	keySoon    = 7 * 24 * time.Hour
	diskLow    = 1 << 30
	diskFull   = 100 << 20
	oldestPG   = 14 // the oldest release that gets fixes
)

// database checks the database and its content.
func (d *doctor) database(ctx context.Context) {
	if database.IsPostgres(d.cmd.Database) {
		if !d.postgres(ctx) {
			return
		}
	} else if !d.sqlite(ctx) {
		return
	}
	store := d.schema(ctx)
	if store == nil {
		return
	}
	defer store.Close()
	if err := store.Ping(ctx); err != nil {
		d.wrong("database", "accepts no writes: "+err.Error(), "check the user's rights, the disk, and that it is no read-only copy")
	} else {
		d.ok("database", "takes writes")
	}
	d.keys(ctx, store)
	d.definitions(ctx, store)
}

// schema opens the database if its schema is this program's.
func (d *doctor) schema(ctx context.Context) journal.Store {
	m, err := database.ForMigrations(d.cmd.Database, false)
	if err != nil {
		d.failed("schema", err)
		return nil
	}
	at, newest, err := migrations.Version(ctx, m)
	if err != nil {
		d.failed("schema", database.Describe(d.cmd.Database, err))
		return nil
	}
	switch err := migrations.Check(ctx, m); {
	case errors.Is(err, migrations.ErrBehind):
		d.warn("schema", fmt.Sprintf("at step %d of %d", at, newest), "`recourse migrate up` brings it up to date; serve does it by itself")
		if at == 0 {
			d.noKeys(ctx)
		}
		return nil
	case err != nil:
		d.failed("schema", err)
		return nil
	}
	d.ok("schema", "at step %d, which is this program's", at)
	store, err := database.Open(ctx, d.cmd.Database, false)
	if err != nil {
		d.failed("database", err)
		return nil
	}
	return store
}

// disk checks the free space for a file.
func (d *doctor) disk(dir string) {
	free, ok := d.free(dir)
	if !ok {
		return
	}
	switch said := fmt.Sprintf("%d MB free where the database is", free>>20); {
	case free < diskFull:
		d.wrong("disk", said, "make room: a full disk stops every saga")
	case free < diskLow:
		d.warn("disk", said, "make room before it is full, which stops every saga")
	default:
		d.ok("disk", "%s", said)
	}
}

// sqlite checks a file. It returns false if no further check is possible.
func (d *doctor) sqlite(ctx context.Context) bool {
	path := d.cmd.Database
	d.disk(filepath.Dir(path))
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			d.failed("database", database.CheckFile(path, false))
		} else {
			d.warn("database", "there is no "+path+" yet", "serve makes it")
			d.noKeys(ctx)
		}
		return false
	}
	if err := database.CheckFile(path, false); err != nil {
		d.failed("database", err)
		return false
	}
	head := make([]byte, 20)
	f, err := os.Open(path)
	if err != nil {
		d.failed("database", err)
		return false
	}
	defer func() { _ = f.Close() }()
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0:
		d.warn("database", path+" is empty", "serve makes its tables")
		d.noKeys(ctx)
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
