package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"recourse/internal/cli"
	"recourse/internal/test/pgserver"
	"recourse/saga"
)

// Three servers share a database behind PgBouncer, with the URLs in docs/operating.md: each starts,
// and serves the sagas of the others.
func TestServeBehindAPooler(t *testing.T) {
	t.Parallel()
	for mode, option := range map[string]string{"session": "", "transaction": "&default_query_exec_mode=exec"} {
		t.Run(mode, func(t *testing.T) {
			through := pgserver.Bouncer(t, pgserver.DSN(t), mode) + option
			_, vars := worldFor(t)
			var servers []*serving
			for range 3 {
				servers = append(servers, serve(t, vars, "--database", through))
			}
			ok(t, servers[0].env, "definitions", "apply", file(t, "hello.yaml", hello))
			for i, s := range servers {
				id := strings.Fields(ok(t, s.env, "start", "hello", "-i", fmt.Sprintf(`{"n":%d,"city":"LIS"}`, i+1)))[0]
				for _, other := range servers {
					waitFor(t, other, id, saga.Succeeded)
				}
			}
			v, r := verdictOf(t, "--database", through)
			wants(t, v, r)
			for _, s := range servers {
				if code := s.stop(); code != cli.OK {
					t.Errorf("serve ended with %d:\n%s", code, s.log)
				}
			}
		})
	}
}

// verify accepts a URL that requires a writable server.
func TestVerifyReadWrite(t *testing.T) {
	t.Parallel()
	dsn := pgserver.DSN(t)
	filled(t, dsn).stop()
	for _, attrs := range []string{"read-write", "primary", "any"} {
		v, r := verdictOf(t, "--database", dsn+"&target_session_attrs="+attrs)
		wants(t, v, r)
	}
}

// A database without free connections leads to an error with advice.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	dsn := pgserver.DSN(t)
	admin, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	role := "few_" + strings.TrimPrefix(u.Path, "/")
	for _, do := range []string{`CREATE ROLE ` + role + ` LOGIN CONNECTION LIMIT 0`} {
		if _, err := admin.Exec(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _, _ = admin.Exec(t.Context(), `DROP ROLE `+role) }()
	u.User = url.User(role)
	for _, args := range [][]string{{"migrate", "up"}, {"verify"}} {
		r := run(t, nil, append(args, "--database", u.String())...)
		if r.code != cli.Unreachable || !strings.Contains(r.errOut, "pool_max_conns") || !strings.Contains(r.errOut, "too many connections") || strings.Contains(r.errOut, "refuses the login") {
			t.Errorf("%v: exit %d: %s", args, r.code, r.errOut)
		}
	}
}
