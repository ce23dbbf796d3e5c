package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"recourse/journal"
)

// fill makes many sagas: most have ended, some are due, few are suspects.
const fill = `
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
	INSERT INTO sagas (id, definition, version, sha256, start_hash, status, wake_at, updated_at, ended_at, owner, claims)
	SELECT CAST(format('%016d', i) AS BLOB), iif(i % 2 = 0, 'even', 'odd'), 1, '', '', iif(i % 5 = 0, 'waiting', 'succeeded'),
		iif(i % 5 = 0, i, NULL), i, iif(i % 5 = 0, NULL, i), iif(i % 10 = 0, 'node', NULL), iif(i % 5000 = 0, 2, 0) FROM n;
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
	INSERT INTO tasks (id, saga_id, path, way, attempt, key, type, lease, timeout, made_at, token, until, ended_at)
	SELECT CAST(format('%016d', i) AS BLOB), CAST(format('%016d', i) AS BLOB), '', '', 1, '', 'a', 1, 1, i,
		iif(i % 10 = 0, NULL, CAST(format('%016d', i) AS BLOB)), iif(i % 10 = 0, NULL, i), iif(i % 10 < 2, NULL, i) FROM n;
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
	INSERT INTO outbox (id, sink, saga_id, made_at, due_at) SELECT CAST(format('%016d', i) AS BLOB), 's', CAST(format('%016d', i) AS BLOB), i, i FROM n;
	ANALYZE`

// What is asked all the time, and the lists that people look at, go by the indexes that are there for them, whether
// the planner has counted the sagas or not.
func TestPlans(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "test.db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	conn := <-s.w.turn
	defer func() { s.w.turn <- conn }()
	plan := func(query string, args ...any) string {
		t.Helper()
		rows, err := conn.QueryContext(ctx, `EXPLAIN QUERY PLAN `+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		err = walk(rows, func(scan func(...any) error) error {
			var line string
			var number int
			err := scan(&number, &number, &number, &line)
			lines = append(lines, line)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	listed := func(f journal.Filter) string {
		t.Helper()
		query, args, err := list(&f)
		if err != nil {
			t.Fatal(err)
		}
		return plan(query, args...)
	}
	for _, state := range []string{"empty", "full"} {
		if state == "full" {
			if _, err := conn.ExecContext(ctx, fill); err != nil {
				t.Fatal(err)
			}
		}
		sorts := func(plan string) string { return strings.ReplaceAll(plan, "TEMP B-TREE", "") } // what is little
		taskPlan := sorts(plan(taskStats))
		for _, tt := range []struct{ name, plan, index string }{
			{"a claim of suspects", plan(takeSuspects, "node", 1, 1), "SEARCH sagas USING INDEX sagas_suspect (wake_at<?)"},
			{"a claim of others", plan(takeOthers, "node", 1, 1), "SEARCH sagas USING INDEX sagas_due (wake_at<?)"},
			{"what they change", plan(takeOthers, "node", 1, 1), "SEARCH sagas USING INTEGER PRIMARY KEY (rowid=?)"},
			{"a claim once more", plan(retake, "node", []byte{1}, "node"), "SEARCH sagas USING INDEX sqlite_autoindex_sagas_1 (id=?)"},
			{"first records", plan(beginsQuery, make([]any, beginsRows+1)...), "SEARCH journal USING PRIMARY KEY (saga_id=? AND seq<?)"},
			{"those in quarantine", plan(`SELECT count(*) FROM sagas WHERE ` + quarantined), "SEARCH sagas USING INDEX sagas_live (status=?)"},
			{"what has expired", plan(expired, 1, 1), "SEARCH sagas USING INDEX sagas_delete (delete_at<?)"},
			{"tasks to claim", plan(waitingTasks, "a", 1), "SEARCH tasks USING INDEX tasks_waiting (type=?)"},
			{"tasks under a token", sorts(plan(heldTasks, []byte{1}, 1)), "SEARCH tasks USING INDEX tasks_token (token=?)"},
			{"tasks that met a fate", plan(fatedTasks, 1, 1), "SEARCH tasks USING INDEX tasks_until (until<?)"},
			{"tasks that ended", plan(oldTasks, 1, 1), "USING COVERING INDEX tasks_ended (ended_at<?)"},
			{"tasks of all types that wait", taskPlan, "SCAN tasks USING INDEX tasks_waiting"},
			{"tasks of all types under way", taskPlan, "tasks USING INDEX tasks_until"},
			{"tasks of a saga", plan(`DELETE FROM tasks WHERE saga_id = ?`, []byte{1}), "SEARCH tasks USING INDEX tasks_saga (saga_id=?)"},
			{"events that are due", plan(dueEvents, 1, 1), "SEARCH outbox USING INDEX outbox_due (due_at<?)"},
			{"live sagas", plan(live), "USING INDEX sagas_live"},
			{"all", listed(journal.Filter{}), "SCAN sagas USING INDEX sqlite_autoindex_sagas_1"},
			{"a status", listed(journal.Filter{Status: []string{"waiting"}}), "SEARCH sagas USING INDEX sagas_status (status=?)"},
			{"a definition", listed(journal.Filter{Definition: "odd"}), "SEARCH sagas USING INDEX sagas_definition (definition=?)"},
			{"costs", plan(allCosts, []byte{0}, []byte{9}, 1), "SEARCH sagas USING INDEX sqlite_autoindex_sagas_1 (id>? AND id<?)"},
			{"costs of a definition", plan(ownCosts, "odd", []byte{0}, []byte{9}, 1), "SEARCH sagas USING INDEX sagas_definition (definition=? AND id>? AND id<?)"},
			{"both", listed(journal.Filter{Definition: "odd", Status: []string{"waiting"}}), "MERGE (INTERSECT)"},
			{"both", listed(journal.Filter{Definition: "odd", Status: []string{"waiting"}}), "SEARCH sagas USING COVERING INDEX sagas_definition (definition=?)"},
			{"both", listed(journal.Filter{Definition: "odd", Status: []string{"waiting"}}), "SEARCH sagas USING COVERING INDEX sagas_status (status=?)"},
		} {
			if !strings.Contains(tt.plan, tt.index) || strings.Contains(tt.plan, "TEMP B-TREE") {
				t.Errorf("%s: %s does not have %q:\n%s", state, tt.name, tt.index, tt.plan)
			}
		}
	}
}
