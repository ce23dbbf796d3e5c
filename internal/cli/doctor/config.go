package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/egress"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
	"recourse/internal/statedir"
)

// configuration checks the config file, whose flags kong has already set.
func (d *doctor) configuration(context.Context) {
	switch f := d.file; {
	case f.Err != nil:
		_, said, _ := strings.Cut(f.Err.Error(), config.ErrFile.Error())
		d.wrong("config", strings.TrimLeft(said, ": "), "")
	case d.cmd.Config == "":
		d.ok("config", "no file: flags and variables only")
	default:
		d.ok("config", "%s: %s", d.cmd.Config, cli.Count(len(f.Values), "flag"))
	}
	if err := d.cmd.Check(); err != nil {
		d.failed("config", err)
	}
}

// archive checks where sagas go whose retention has ended.
func (d *doctor) archive(context.Context) {
	dir, err := d.cmd.ArchiveDir()
	switch {
	case err != nil:
		d.failed("archive", fmt.Errorf("--archive: %w", err))
	case dir != "":
		d.directory("archive", dir)
	}
}

// state checks the state directory.
func (d *doctor) state(context.Context) {
	dir := d.cmd.StateDir
	if dir == "" {
		return
	}
	if _, err := os.Stat(filepath.Join(dir, "node")); err != nil { // Open would make it, perhaps as another user
		d.directory("state-dir", dir)
		return
	}
	s, err := statedir.Open(dir)
	switch {
	case errors.Is(err, statedir.ErrHeld):
		d.warn("state-dir", dir+": "+err.Error(), "while that process runs, serve needs another one")
	case err != nil:
		d.wrong("state-dir", dir+" cannot be used: "+err.Error(), "name a directory on a local disk that this user may write")
	default:
		_ = s.Close()
		d.ok("state-dir", "%s is there", dir)
	}
}

// directory checks a directory in which serve makes files.
func (d *doctor) directory(check, dir string) {
	switch missing, err := writable(dir); {
	case err != nil:
		d.wrong(check, dir+" cannot be written: "+err.Error(), "name a directory that this user may write")
	case missing:
		d.warn(check, "there is no "+dir+" yet", "serve makes it")
	default:
		d.ok(check, "%s is there", dir)
	}
}

// writable returns an error if no file can be made in a directory, or in the one in which serve
// would make it because it is missing.
func writable(dir string) (missing bool, err error) {
	f, err := os.CreateTemp(dir, ".recourse-doctor-")
	for parent := ""; errors.Is(err, fs.ErrNotExist) && parent != dir; missing = true {
		parent, dir = dir, filepath.Dir(dir)
		f, err = os.CreateTemp(dir, ".recourse-doctor-")
	}
	if err != nil {
		return missing, err
	}
	return missing, errors.Join(f.Close(), os.Remove(f.Name()))
}

// environment checks variables, vars and secrets.
func (d *doctor) environment(context.Context) {
	src, err := secrets.New(d.cmd.SecretDir, d.app.Env)
	if err != nil {
		d.failed("secrets", err)
	} else {
		d.secrets = src
		bad := 0
		for _, name := range src.Names() {
			if _, err := src.Get(name); err != nil {
				d.failed("secrets", err)
				bad++
			}
		}
		if bad == 0 {
			d.ok("secrets", "%s", cli.Count(len(src.Names()), "secret"))
		}
		d.secretHosts(src)
	}
	vars, err := config.ReadVars(d.cmd.Vars, d.app.Variables)
	if err != nil {
		d.failed("vars", err)
		return
	}
	d.ok("vars", "%s", cli.Count(len(vars), "var"))
}

// secretHosts checks to which hosts secrets may be sent.
func (d *doctor) secretHosts(src *secrets.Source) {
	if d.file.Err != nil {
		return // already reported
	}
	if _, err := config.ReadLimits(d.cmd.Config); err != nil {
		d.failed("config", err)
	}
	if sinks, err := config.ReadSinks(d.cmd.Config, src); err == nil { // else d.sinks reports it
		if _, err := config.ReadEvidence(d.cmd.Config, src, sinks); err != nil {
			d.failed("config", err)
		}
	}
	_, unknown, err := config.ReadSecretHosts(d.cmd.Config, src)
	switch {
	case err != nil:
		d.failed("secret-hosts", err)
	case len(unknown) > 0:
		d.warn("secret-hosts", "names secrets that are not there: "+strings.Join(unknown, ", "), "check their spelling against the definitions: a secret that is not named may be sent to any host")
	}
}

// egress checks the egress rules.
func (d *doctor) egress(context.Context) {
	guard, err := egress.NewGuard(d.cmd.EgressAllow)
	if err != nil {
		d.failed("egress", err)
		return
	}
	d.calls = egress.Config{Guard: guard, DialTimeout: answerTime}
	if err := d.cmd.DialFlags.Apply(&d.calls); err != nil {
		d.failed("egress", err)
		return
	}
	if len(d.cmd.EgressAllow) == 0 {
		d.ok("egress", "steps reach public addresses only")
	} else {
		d.ok("egress", "steps reach public addresses, and %s", strings.Join(d.cmd.EgressAllow, ", "))
	}
	if len(d.cmd.Resolve) > 0 {
		d.warn("egress", "--resolve leads "+cli.Count(len(d.cmd.Resolve), "name")+" elsewhere, which is for tests", "leave it out where sagas are in earnest")
	}
}

// sinks checks whether the sinks can be reached.
func (d *doctor) sinks(ctx context.Context) {
	if d.file.Err != nil || d.secrets == nil {
		return // already reported
	}
	list, err := config.ReadSinks(d.cmd.Config, d.secrets)
	if err != nil {
		d.failed("sinks", err)
		return
	}
	for _, s := range list {
		d.sink(ctx, s)
	}
}

func (d *doctor) sink(ctx context.Context, s outbox.Sink) {
	check := "sink " + s.Name
	if err := d.dial(ctx, s.URL); err != nil {
		d.wrong(check, "cannot be reached: "+err.Error(), reachable(err))
		return
	}
	if len(s.Secrets) == 0 {
		d.warn(check, "is reachable, but its events are not signed", "give it `secrets`, so that it can verify the sender of events")
		return
	}
	d.ok(check, "is there")
}

// dial connects to a URL's host as a step would, and sends nothing.
func (d *doctor) dial(ctx context.Context, address string) error {
	host, err := hostPort(address)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	conn, err := egress.NewDialer(d.calls).Dial(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// reachable returns advice about a failure to connect.
func reachable(err error) string {
	if dial := new(egress.DialError); errors.As(err, &dial) && dial.Code == egress.CodeDenied {
		return "" // the error says so itself
	}
	return "check its address, and that it runs"
}

// hostPort returns the host and port of a URL.
func hostPort(address string) (string, error) {
	u, err := parseURL(address)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
