package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
	"recourse/journal"
)

// fill creates many sagas: most have ended, some are due, a few are suspects. Those that failed are
// the oldest.
const fill = `
	INSERT INTO nodes (id, expires_at) VALUES ('node', 0);
	INSERT INTO sagas (id, definition, version, sha256, start_hash, status, labels, wake_at, updated_at, ended_at, owner, claims)
	SELECT lpad(to_hex(i), 32, '0')::uuid, CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, 1, '', '',
		CASE WHEN i < 3000 THEN 'failed' WHEN i % 5 = 0 THEN 'waiting' ELSE 'succeeded' END,
		CASE WHEN i % 3 = 0 THEN '{}' WHEN i < 20 THEN '{"batch": "pilot"}' ELSE '{"tier": "standard"}' END::jsonb,
		CASE WHEN i % 5 = 0 THEN i END, i, CASE WHEN i % 5 <> 0 THEN i END, CASE WHEN i % 10 = 0 THEN 'node' END, CASE WHEN i % 5000 = 0 THEN 2 ELSE 0 END
	FROM generate_series(1, 30000) i;
	INSERT INTO tasks (id, saga_id, path, way, attempt, key, type, lease, timeout, created_at, token, ends_at, ended_at)
	SELECT lpad(to_hex(i), 32, '0')::uuid, lpad(to_hex(i), 32, '0')::uuid, '', '', 1, '', 'a', 1, 1, i,
		CASE WHEN i % 10 > 0 THEN lpad(to_hex(i), 32, '0')::uuid END, CASE WHEN i % 10 > 0 THEN i END, CASE WHEN i % 10 > 1 THEN i END
	FROM generate_series(1, 10000) i;
	INSERT INTO blobs (saga_id, hash, data) SELECT lpad(to_hex(i % 100), 32, '0')::uuid, sha256(i::text::bytea), '' FROM generate_series(1, 10000) i;
	INSERT INTO outbox (id, sink, saga_id, created_at, due_at) SELECT lpad(to_hex(i), 32, '0')::uuid, 's', lpad(to_hex(i), 32, '0')::uuid, i, i FROM generate_series(1, 10000) i;
	ANALYZE`

// Frequent queries, and the lists that people view, use their indexes, whether the planner has
// statistics or believes that the tables are empty.
func TestPlans(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, pgserver.DSN(t), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	uses := func(name, plan, index string) {
		t.Helper()
		if !strings.Contains(plan, index) || strings.Contains(strings.ReplaceAll(plan, "Seq Scan on nodes", ""), "Seq Scan") {
			t.Errorf("%s does not use %s:\n%s", name, index, plan)
		}
	}
	for pool, conns := range map[string]querier{"reading": s.pool, "writing": s.w, "leases": s.lease} {
		if jit := text(t, conns, `SHOW jit`); jit != "off" {
			t.Errorf("on connections for %s, jit = %s", pool, jit)
		}
	}
	for _, state := range []string{"empty", "full"} {
		if state == "full" {
			if _, err := s.pool.Exec(ctx, fill, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		claim := generic(t, s, claimable, "1")
		uses(state+": a claim", claim, "Index Scan using sagas_suspect")
		uses(state+": a claim", claim, "Index Scan using sagas_due")
		uses(state+": a claim once more", generic(t, s, claimableAgain, "NULL, 'node'"), "sagas_pkey")
		uses(state+": a claim of tasks", generic(t, s, claimTasks, "NULL, 1, NULL, '', 1"), "Index Scan using tasks_waiting")
		uses(state+": tasks under a token", generic(t, s, leasedTasks, "NULL"), "Index Scan using tasks_token")
		uses(state+": a heartbeat", generic(t, s, heartbeat, "NULL, NULL"), "Index Scan using tasks_pkey")
		uses(state+": an end", generic(t, s, `WITH `+endTask+` SELECT 1 FROM ended`, "NULL, NULL, ''"), "Index Scan using tasks_pkey")
		uses(state+": fates once more", generic(t, s, endedAgain, "NULL"), "tasks_pkey")
		uses(state+": tasks that have ended", generic(t, s, expiredTasks, "1"), "Index Scan using tasks_ends_at")
		uses(state+": tasks that ended", generic(t, s, oldTasks, "1, 1"), "Index Scan using tasks_ended")
		uses(state+": events that are due", generic(t, s, claimEvents, "'{s}', 1, 1"), "Index Scan using outbox_due")
		uses(state+": what is due and not claimed", generic(t, s, unclaimed, "1, 1"), "Index Scan using sagas_due")
		uses(state+": suspects", generic(t, s, noProgress, "1, 1"), "sagas_suspect")
		uses(state+": what is in quarantine", generic(t, s, quarantinedSince, "1, 1"), "sagas_live")
		uses(state+": tasks that nobody claims", generic(t, s, unworked, "1, 1"), "Index Scan using tasks_waiting on tasks t")
		st := insertMessages(nil)
		uses(state+": sending messages", generic(t, s, st.text(), "NULL, NULL, NULL, NULL"), "sagas_pkey")
		uses(state+": recipients", generic(t, s, recipients, "'node', NULL, 1"), "sagas_pending_messages")
		uses(state+": messages of sagas", generic(t, s, messagesQuery, "NULL, 1, 1"), "messages_pkey")
		uses(state+": messages of sagas", generic(t, s, messagesQuery, "NULL, 1, 1"), "(saga_id = ANY ($1))")
		uses(state+": blobs", text(t, s.pool, `EXPLAIN `+blobsQuery, pgx.QueryExecModeSimpleProtocol, uuid.Nil.String(), [][]byte{{1}, {2}}), "blobs_pkey")
		uses(state+": blobs to erase", generic(t, s, eraseBlobs, "NULL, 1"), "blobs_pkey")
		uses(state+": what has expired", generic(t, s, expired, "1"), "Index Scan using sagas_delete")
		uses(state+": what has expired, page by page", generic(t, s, listExpired, "1, NULL, 1"), "Index Scan using sagas_delete")
		uses(state+": partitions without sagas", generic(t, s, emptySpans, "NULL, NULL, NULL"), "Index Only Scan using sagas_pkey")
		uses(state+": hashes of blobs", generic(t, s, blobHashes, "NULL"), "blobs_pkey")
	}
	events := outboxPlan(t, s)
	uses("events by sink", events, "Index Only Scan using outbox_created")
	uses("the last failure of a sink", events, "Index Scan Backward using outbox_failed")
	uses("tasks that wait", text(t, s.pool, `EXPLAIN `+taskStats), "tasks_waiting")
	uses("tasks in flight", text(t, s.pool, `EXPLAIN `+taskStats), "tasks_ends_at")
	uses("a local claim", generic(t, s, claimableLocal, "1"), "Index Scan using sagas_local")
	uses("those in quarantine", text(t, s.pool, `EXPLAIN `+quarantinedCount), "sagas_live")
	uses("live sagas", text(t, s.pool, `EXPLAIN `+live), "sagas_live")
	uses("the sagas of a node", generic(t, s, owned, "NULL, NULL, 1"), "Index Scan using sagas_owner")
	uses("live sagas with an owner", text(t, s.pool, `EXPLAIN `+live), "Index Scan using sagas_owner")
	pages(t, s)
	for _, tt := range []struct {
		name, index string
		f           journal.Filter
	}{
		{"all", "sagas_pkey", journal.Filter{}},
		{"text", "sagas_pkey", journal.Filter{Text: "x"}},
		{"a status", "sagas_status", journal.Filter{Status: []string{"failed"}}},
		{"two statuses", "sagas_status", journal.Filter{Status: []string{"failed", "waiting"}}},
		{"text of two statuses", "sagas_status", journal.Filter{Status: []string{"failed", "waiting"}, Text: "x"}},
		{"a definition", "sagas_definition", journal.Filter{Definition: "odd"}},
		{"a status of a definition", "sagas_definition", journal.Filter{Definition: "odd", Status: []string{"failed"}}},
		{"a label", "saga_labels_pkey", journal.Filter{Labels: map[string]string{"tier": "standard"}}},
		{"a status of a label", "saga_labels_pkey", journal.Filter{Labels: map[string]string{"tier": "standard"}, Status: []string{"failed"}}},
	} {
		for _, bounds := range []journal.Filter{{}, {Before: uuid.UUID{14: 0x40}}, {From: uuid.UUID{14: 0x20}, Before: uuid.UUID{14: 0x40}}} {
			tt.f.From, tt.f.Before, tt.f.Limit, tt.f.MaxScanned = bounds.From, bounds.Before, 20, 1000
			list, reach := explained(t, s, tt.f)
			for what, plan := range map[string]string{"list": list, "reach": reach} {
				uses(what+" by "+tt.name, plan, " Backward using "+tt.index)
				// These lists sort the sagas that have an owner, and at the end at most a page for
				// each index.
				owned := what == "list" && (tt.index == "sagas_status" || tt.index == "sagas_definition")
				if strings.Contains(plan, "Index Scan using sagas_owner") != owned {
					t.Errorf("the %s by %s reads the owned sagas, or does not:\n%s", what, tt.name, plan)
				}
				if strings.Contains(plan, "Sort") && !owned && len(tt.f.Status) < 2 {
					t.Errorf("the %s by %s sorts:\n%s", what, tt.name, plan)
				}
			}
		}
	}
	for _, tt := range []struct {
		index string
		f     journal.CostFilter
	}{
		{"Index Scan Backward using sagas_pkey", journal.CostFilter{From: uuid.UUID{15: 1}, Before: uuid.UUID{14: 0x70}, Limit: 2000}},
		{"Index Scan Backward using sagas_definition", journal.CostFilter{Definition: "odd", Before: uuid.UUID{14: 0x70}, Limit: 200}},
	} {
		c := &conditions{}
		query := costs(c, &tt.f)
		uses("costs "+tt.f.Definition, text(t, s.pool, `EXPLAIN `+query, append([]any{pgx.QueryExecModeSimpleProtocol}, c.args...)...), tt.index)
	}
}

// pages fails unless the pages of lists have each saga once, the newest first, whichever index they
// use.
func pages(t *testing.T, s *Store) {
	t.Helper()
	for _, tt := range []struct {
		where string
		f     journal.Filter
	}{
		{`status = 'failed'`, journal.Filter{Status: []string{"failed", "failed"}}},
		{`status IN ('failed', 'waiting')`, journal.Filter{Status: []string{"waiting", "failed"}}},
		{`definition = 'odd'`, journal.Filter{Definition: "odd"}},
		{`definition = 'odd' AND status IN ('failed', 'waiting')`, journal.Filter{Definition: "odd", Status: []string{"waiting", "failed"}}},
		{`definition = 'odd' AND status = 'failed'`, journal.Filter{Definition: "odd", Status: []string{"failed"}}},
		{`status = 'failed' AND labels @> '{"tier": "standard"}'`, journal.Filter{Status: []string{"failed"}, Labels: map[string]string{"tier": "standard"}}},
		{`labels @> '{"batch": "pilot"}'`, journal.Filter{Labels: map[string]string{"batch": "pilot"}}},
		{`id::text LIKE '00000000-0000-0000-0000-00000000000%'`, journal.Filter{Before: uuid.UUID{15: 0x10}}},
	} {
		rows, err := s.pool.Query(t.Context(), `SELECT id FROM sagas WHERE `+tt.where+` ORDER BY id DESC`)
		if err != nil {
			t.Fatal(err)
		}
		want, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil || len(want) < 6 {
			t.Fatalf("%s: %d sagas, %v", tt.where, len(want), err)
		}
		var got [][16]byte
		for tt.f.Limit = len(want)/3 + 1; ; tt.f.Before = got[len(got)-1] {
			list, err := s.Sagas(t.Context(), tt.f)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range list.Heads {
				got = append(got, h.ID)
			}
			if len(list.Heads) < tt.f.Limit {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d sagas, want %d; or they are others", tt.where, len(got), len(want))
		}
	}
}

// generic returns the plan of a writer's statement, which is made without its arguments.
func generic(t *testing.T, s *Store, query, args string) string {
	t.Helper()
	conn, err := s.w.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.release()
	if _, err := conn.Exec(t.Context(), `PREPARE planned AS `+query); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), `DEALLOCATE planned`); err != nil {
			t.Error(err)
		}
	}()
	return text(t, conn, `EXPLAIN EXECUTE planned(`+args+`)`)
}

// explained returns the plans of a list by the first part of its filter, and of the query for how
// far that part reaches.
func explained(t *testing.T, s *Store, f journal.Filter) (list, reach string) {
	t.Helper()
	w := scansFor(&f.Parts()[0])
	c := &conditions{}
	query, err := w.list(c, &f)
	if err != nil {
		t.Fatal(err)
	}
	list = text(t, s.pool, `EXPLAIN `+query, append([]any{pgx.QueryExecModeSimpleProtocol}, c.args...)...)
	c = &conditions{}
	query = w.reach(c, &f)
	return list, text(t, s.pool, `EXPLAIN `+query, append([]any{pgx.QueryExecModeSimpleProtocol}, c.args...)...)
}

// outboxPlan returns the plan of outboxStats for a table that autovacuum has seen. Of a new one,
// the planner prefers to read all pages.
func outboxPlan(t *testing.T, s *Store) string {
	t.Helper()
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.release()
	set := func(state string) {
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), `SET enable_seqscan = `+state); err != nil {
			t.Error(err)
		}
	}
	set("off")
	defer set("on")
	return text(t, conn, `EXPLAIN `+outboxStats)
}

func text(t *testing.T, q querier, query string, args ...any) string {
	t.Helper()
	rows, err := q.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
