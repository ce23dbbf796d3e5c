package pgserver_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
)

// A standby has the commits of its primary until it is cut off. After its promotion it accepts
// writes.
func TestStandby(t *testing.T) {
	ctx := t.Context()
	primary, err := pgserver.Start(append([]string{"synchronous_standby_names=*"}, pgserver.Durable...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = primary.Stop() }()
	standby, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = standby.Stop() }()
	do := func(c *pgserver.Cluster, statement string) error {
		conn, err := pgx.Connect(ctx, c.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement)
		return err
	}
	if err := do(primary, `CREATE TABLE kept ()`); err != nil {
		t.Fatal(err)
	}
	if err := standby.CutOff(ctx); err != nil {
		t.Fatal(err)
	}
	if err := do(primary, `SET synchronous_commit = local; CREATE TABLE lost ()`); err != nil {
		t.Fatal(err)
	}
	if do(standby, `CREATE TABLE refused ()`) == nil {
		t.Error("a standby accepts writes")
	}
	if err := primary.Halt(pgserver.Killed); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if err := do(standby, `INSERT INTO kept DEFAULT VALUES`); err != nil {
		t.Errorf("the promoted standby: %v", err)
	}
	if do(standby, `SELECT FROM lost`) == nil {
		t.Error("the standby has what was committed after it was cut off")
	}
}
