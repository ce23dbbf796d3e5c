package main

import (
	"errors"
	"fmt"

	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Run the missing migrations. serve does this at its start."`
	Status migrateStatusCmd `cmd:"" help:"Print the database's current migration; exit 1 if this program needs another one."`
	Down   migrateDownCmd   `cmd:"" help:"Revert the last migrations. Reverting the first one deletes all sagas."`
}

type migrateUpCmd struct{ database.Flag }

// Run applies migrations.
func (c *migrateUpCmd) Run(a *cli.App) error {
	d, err := database.ForMigrations(c.Database, true)
	if err != nil {
		return err
	}
	if err := a.During("migrating the database", func() error { return migrations.Up(a.Ctx, d) }); err != nil {
		return database.Describe(c.Database, err)
	}
	return printStep(a, d, c.Database)
}

// printStep prints at which step the database is.
func printStep(a *cli.App, d migrations.Database, url string) error {
	at, _, err := migrations.Version(a.Ctx, d)
	if err != nil {
		return database.Describe(url, err)
	}
	a.Printf("at step %d\n", at)
	return nil
}

type migrateStatusCmd struct {
	database.Flag
	cli.OutputFlag
}

// Run shows the state of the schema.
func (c *migrateStatusCmd) Run(a *cli.App) error {
	d, err := database.ForMigrations(c.Database, false)
	if err != nil {
		return err
	}
	at, newest, err := migrations.Version(a.Ctx, d)
	if err != nil {
		return database.Describe(c.Database, err)
	}
	if c.Machine() {
		if err := a.Encode(map[string]int{"at": at, "newest": newest}); err != nil {
			return err
		}
	} else {
		a.Printf("at step %d, this program has %d\n", at, newest)
	}
	if err := migrations.Check(a.Ctx, d); err != nil {
		return cli.Exit(cli.Failed, err)
	}
	return nil
}

type migrateDownCmd struct {
	database.Flag
	Steps int  `required:"" help:"Number of migrations to revert."`
	Force bool `help:"Confirm that sagas may be deleted."`
}

// Run reverts migrations.
func (c *migrateDownCmd) Run(a *cli.App) error {
	if !c.Force || c.Steps < 1 {
		return cli.Exit(cli.Usage, errors.New("undoing migrations may delete sagas: make a backup, then say --steps 1 --force"))
	}
	d, err := database.ForMigrations(c.Database, false)
	if err != nil {
		return err
	}
	if err := a.During("undoing "+cli.Count(c.Steps, "step"), func() error { return migrations.Down(a.Ctx, d, c.Steps) }); err != nil {
		return fmt.Errorf("migrate down: %w", database.Describe(c.Database, err))
	}
	return printStep(a, d, c.Database)
}
