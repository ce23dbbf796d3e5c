package main

import (
	"errors"
	"fmt"

	"recourse/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Run the migrations that are missing; serve does it by itself."`
	Status migrateStatusCmd `cmd:"" help:"Say at which step the database stands; exit 1 if it is not this program's."`
	Down   migrateDownCmd   `cmd:"" help:"Undo the last steps. Sagas are lost with the first one."`
}

type migrateUpCmd struct{ databaseFlag }

// Run migrates.
func (c *migrateUpCmd) Run(a *app) error {
	d, err := databaseOf(c.Database, true)
	if err != nil {
		return err
	}
	if err := a.during("migrating the database", func() error { return migrations.Up(a.ctx, d) }); err != nil {
		return databaseError(c.Database, err)
	}
	at, _, err := migrations.Version(a.ctx, d)
	if err != nil {
		return databaseError(c.Database, err)
	}
	a.printf("at step %d\n", at)
	return nil
}

type migrateStatusCmd struct {
	databaseFlag
	outputFlag
}

// Run looks.
func (c *migrateStatusCmd) Run(a *app) error {
	d, err := databaseOf(c.Database, false)
	if err != nil {
		return err
	}
	at, newest, err := migrations.Version(a.ctx, d)
	if err != nil {
		return databaseError(c.Database, err)
	}
	if c.machine() {
		if err := a.encoded(map[string]int{"at": at, "newest": newest}); err != nil {
			return err
		}
	} else {
		a.printf("at step %d, this program has %d\n", at, newest)
	}
	if err := migrations.Check(a.ctx, d); err != nil {
		return exit(exitFailed, err)
	}
	return nil
}

type migrateDownCmd struct {
	databaseFlag
	Steps int  `required:"" help:"How many steps to undo."`
	Force bool `help:"Yes, sagas may be lost."`
}

// Run undoes migrations.
func (c *migrateDownCmd) Run(a *app) error {
	if !c.Force || c.Steps < 1 {
		return exit(exitUsage, errors.New("undoing migrations may delete sagas: make a backup, then say --steps 1 --force"))
	}
	d, err := databaseOf(c.Database, false)
	if err != nil {
		return err
	}
	if err := a.during("undoing "+count(c.Steps, "step"), func() error { return migrations.Down(a.ctx, d, c.Steps) }); err != nil {
		return fmt.Errorf("migrate down: %w", databaseError(c.Database, err))
	}
	a.printf("%s undone\n", count(c.Steps, "step"))
	return nil
}
