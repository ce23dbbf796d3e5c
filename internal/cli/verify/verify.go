// Package verify has the command that checks journals, in files or in their database, against their
// definitions and the ledgers of remote services.
package verify

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/internal/evidence"
	"recourse/internal/invariant"
	"recourse/saga"
)

// Command checks journals, offline or in their database, against their definitions and the ledger
// of the remote service.
type Command struct {
	cli.OutputFlag
	Files    []string `arg:"" optional:"" name:"file" sep:"none" help:"Exported journals, or directories of them; - is stdin."`
	Database string   `placeholder:"FILE|URL" help:"Check the sagas of this database; read-only, also while servers use it."`
	Archive  string   `placeholder:"URL" help:"Check the sagas of this archive, and with --database also those of its database; read-only."`
	Saga     string   `placeholder:"ID" help:"With a file: the saga's id, if the file does not contain it; the hash chain starts with it. With --database: check only this saga; the first 8 characters of its id suffice."`
	Since    string   `placeholder:"TIME" help:"With --database: check only sagas started since this time, or in the last 24h or 7d."`
	definition.ActionFlags
	Definitions []string `short:"d" aliases:"definition" sep:"none" placeholder:"FILE|DIR" help:"The definitions of the sagas, as they were published; repeatable."`
	Ledger      string   `placeholder:"FILE" help:"The remote service's ledger of effects; docs/cli.md has the format."`
	LedgerOf    []string `sep:"none" placeholder:"URL" help:"URL prefix of the service whose ledger this is; repeatable. Default: every service that the sagas call."`
	LedgerUntil string   `placeholder:"TIME" help:"Time at which the ledger was written; default: the file's modification time."`
	Complete    bool     `help:"Report every write in the ledger that is not from these sagas."`
	Keyless     []string `sep:"none" placeholder:"SERVICE" help:"A service of the ledger that ignores idempotency keys; repeatable."`
	Skew        string   `default:"2s" placeholder:"SPAN" help:"Time that the ledger's clock may lag behind the database's; default ${default}."`
	Starts      string   `placeholder:"FILE" help:"A file of acknowledged starts, as start -o json prints them; each of them must exist."`
	Anchors     []string `sep:"none" placeholder:"FILE" help:"A file of anchors, as a sink or the file of evidence got them; repeatable. The journals are compared with them."`
	AnchorsKey  []string `sep:"none" placeholder:"FILE" help:"The public key that anchors were signed with, in PEM; repeatable."`
	Canaries    string   `placeholder:"FILE" help:"A file of secrets, one per line, that no journal may contain."`
}

// Run checks everything that the given files allow.
func (c *Command) Run(a *cli.App) error {
	if (len(c.Files) > 0) == (c.Database != "" || c.Archive != "") {
		return cli.Exit(cli.Usage, errors.New("name exported journals, or a --database, an --archive, or both"))
	}
	if c.Archive != "" && (c.Saga != "" || c.Since != "") {
		return cli.Exit(cli.Usage, errors.New("--saga and --since are for a --database alone: an archive is checked as a whole"))
	}
	cfg, err := c.config(a)
	if err != nil {
		return err
	}
	anchors, err := c.readAnchors(a)
	if err != nil {
		return err
	}
	cfg.Anchored = anchors != nil
	actions, err := c.ReadActions(a)
	if err != nil {
		return err
	}
	defs, err := definition.CompileAll(a, c.Definitions, actions)
	if err != nil {
		return err
	}
	v := &check{app: a, cmd: c, defs: defs, actions: actions, missing: make(map[string]*missing), anchors: anchors}
	switch {
	case c.Database != "":
		err = v.database(cfg)
	case c.Archive != "":
		v.checker = invariant.New(cfg)
		err = v.archive(v.defined)
	default:
		v.checker = invariant.New(cfg)
		err = v.files(c.Files)
	}
	if err != nil {
		return err
	}
	v.anchored()
	if c.Since != "" && v.checker.Totals().Sagas == 0 {
		return cli.Exit(cli.NotFound, fmt.Errorf("no saga was started since %s: nothing was checked", c.Since))
	}
	return v.report()
}

// check is one run of verify.
type check struct {
	app     *cli.App
	cmd     *Command
	defs    map[string]*saga.Definition // by SHA-256
	actions *definition.Actions         // for sessions, and for sagas that only run an action
	checker *invariant.Checker
	missing map[string]*missing // by SHA-256
	moving  int                 // sagas whose rows changed during the check

	// With a database and an archive: the sagas of the database, with the last hashes of those that
	// had ended and whose journals can be read, otherwise zero.
	rows map[uuid.UUID][sha256.Size]byte
	// Sagas of the archive that are only in objects whose archiver did not finish.
	unfinished int
	archived   int           // sagas of the archive
	anchors    *evidence.Set // nil: none were given
}

// missing is a definition of checked sagas that is not available.
type missing struct {
	Definition string       `json:"definition"`
	Version    saga.Version `json:"version"`
	SHA256     string       `json:"sha256"`
	Sagas      int          `json:"sagas"`
	Why        string       `json:"why,omitempty"`
}

func (c *Command) config(a *cli.App) (invariant.Config, error) {
	cfg := invariant.Config{Now: time.Now()}
	var err error
	if c.Ledger != "" {
		if cfg.Ledger, err = c.ledger(a); err != nil {
			return cfg, err
		}
	} else if len(c.LedgerOf) > 0 || c.Complete || c.LedgerUntil != "" || len(c.Keyless) > 0 {
		return cfg, cli.Exit(cli.Usage, errors.New("--ledger-of, --ledger-until, --complete and --keyless say something about a --ledger: name its file"))
	}
	if c.Starts != "" {
		if cfg.Starts, err = readStarts(a, c.Starts); err != nil {
			return cfg, err
		}
	}
	if c.Canaries != "" {
		cfg.Canaries, err = readCanaries(a, c.Canaries)
	}
	return cfg, err
}

// lacks records that a saga's definition is missing.
func (v *check) lacks(d saga.StartedData, why string) {
	m := v.missing[d.SHA256]
	if m == nil {
		m = &missing{Definition: d.Definition, Version: d.Version, SHA256: d.SHA256, Why: why}
		v.missing[d.SHA256] = m
	}
	m.Sagas++
}

func sagaID(text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.FromString(text)
	if err != nil {
		return uuid.Nil, cli.Exit(cli.Usage, fmt.Errorf("--saga %s is not an id: a journal in a file needs the whole id of its saga, since its hashes begin with it", text))
	}
	return id, nil
}

// written returns when a file was written; for stdin it is the present.
func written(file string) (time.Time, error) {
	if file == "-" {
		return time.Now(), nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}, cli.Exit(cli.Usage, err)
	}
	if !info.Mode().IsRegular() {
		return time.Now(), nil
	}
	return info.ModTime(), nil
}
