package sqlite

import (
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// fill creates many sagas: most have ended, some are due, a few are suspects.
const fill = `
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
	INSERT INTO sagas (id, definition, version, sha256, start_hash, status, wake_at, updated_at, ended_at, owner, claims)
	SELECT CAST(format('%016d', i) AS BLOB), iif(i % 2 = 0, 'even', 'odd'), 1, '', '', iif(i % 5 = 0, 'waiting', 'succeeded'),
		iif(i % 5 = 0, i, NULL), i, iif(i % 5 = 0, NULL, i), iif(i % 10 = 0, 'node', NULL), iif(i % 5000 = 0, 2, 0) FROM n;
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
	INSERT INTO tasks (id, saga_id, path, way, attempt, key, type, lease, timeout, created_at, token, ends_at, ended_at)
	SELECT CAST(format('%016d', i) AS BLOB), CAST(format('%016d', i) AS BLOB), '', '', 1, '', 'a', 1, 1, i,
		iif(i % 10 = 0, NULL, CAST(format('%016d', i) AS BLOB)), iif(i % 10 = 0, NULL, i), iif(i % 10 < 2, NULL, i) FROM n;
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
	INSERT INTO outbox (id, sink, saga_id, created_at, due_at) SELECT CAST(format('%016d', i) AS BLOB), 's', CAST(format('%016d', i) AS BLOB), i, i FROM n;
	ANALYZE`

// Frequent queries, and the lists that people view, use their indexes, whether ANALYZE has run or
// not.
func TestPlans(t *testing.T) {
	ctx := t.Context()
	s := fresh(t)
	conn := turnOf(t, s)
	defer s.w.turns.give(conn)
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
	// ways returns the plans of a list by each part of its filter, and of the queries for how far
	// each part reaches.
	ways := func(f journal.Filter) (lists, reaches []string) {
		t.Helper()
		f.Limit, f.MaxScanned, f.Before, f.From = 20, 1000, uuid.UUID{0xff}, uuid.UUID{1}
		for _, p := range f.Parts() {
			w, err := waysTo(&p)
			if err != nil {
				t.Fatal(err)
			}
			query, args, err := w.list(&f)
			if err != nil {
				t.Fatal(err)
			}
			lists = append(lists, plan(query, args...))
			query, args = w.reach(&f)
			reaches = append(reaches, plan(query, args...))
		}
		return lists, reaches
	}
	for _, state := range []string{"empty", "full"} {
		if state == "full" {
			if _, err := conn.ExecContext(ctx, fill); err != nil {
				t.Fatal(err)
			}
		}
		sorts := func(plan string) string { return strings.ReplaceAll(plan, "TEMP B-TREE", "") } // of a few rows
		taskPlan := sorts(plan(taskStats))
		for _, tt := range []struct{ name, plan, index string }{
			{"a claim of suspects", plan(takeSuspects, "node", 1, 1), "SEARCH sagas USING INDEX sagas_suspect (wake_at<?)"},
			{"a claim of others", plan(takeOthers, "node", 1, 1), "SEARCH sagas USING INDEX sagas_due (wake_at<?)"},
			{"what they change", plan(takeOthers, "node", 1, 1), "SEARCH sagas USING INTEGER PRIMARY KEY (rowid=?)"},
			{"a local claim of suspects", plan(takeLocalSuspects, "node", 1, 1), "SEARCH sagas USING INDEX sagas_local (wake_at<?)"},
			{"a local claim of others", plan(takeLocalOthers, "node", 1, 1), "SEARCH sagas USING INDEX sagas_local (wake_at<?)"},
			{"a claim once more", plan(retake, "node", []byte{1}, "node", 1), "SEARCH sagas USING INDEX sqlite_autoindex_sagas_1 (id=?)"},
			{"first records", plan(beginsQuery, make([]any, beginsRows+1)...), "SEARCH journal USING PRIMARY KEY (saga_id=? AND seq<?)"},
			{"recipients", sorts(plan(recipients, "node", []byte{1}, 1)), "SEARCH sagas USING INDEX sagas_pending_messages (owner=?)"},
			{"messages of sagas", plan(messagesQuery, make([]any, messageSagas+1)...), "SEARCH messages USING PRIMARY KEY (saga_id=?)"},
			{"blobs", plan(blobsQuery, make([]any, 1+blobRows)...), "SEARCH blobs USING INDEX sqlite_autoindex_blobs_1 (saga_id=? AND hash=?)"},
			{"those in quarantine", plan(quarantinedCount), "SEARCH sagas USING INDEX sagas_live (status=?)"},
			{"what has expired", plan(expired, 1, 1), "SEARCH sagas USING INDEX sagas_delete (delete_at<?)"},
			{"what has expired, page by page", sorts(plan(listExpired, 1, 1, []byte{1}, 2, 1)), "SEARCH sagas USING INDEX sagas_delete (delete_at>? AND delete_at<?)"},
			{"hashes of blobs", plan(blobHashes, []byte{1}), "SEARCH blobs USING COVERING INDEX sqlite_autoindex_blobs_1 (saga_id=?)"},
			{"tasks to claim", plan(waitingTasks, "a", 1), "SEARCH tasks USING INDEX tasks_waiting (type=?)"},
			{"tasks under a token", sorts(plan(leasedTasks, []byte{1}, 1)), "SEARCH tasks USING INDEX tasks_token (token=?)"},
			{"tasks that have ended", plan(expiredTasks, 1, 1), "SEARCH tasks USING INDEX tasks_ends_at (ends_at<?)"},
			{"tasks that ended", plan(oldTasks, 1, 1), "USING COVERING INDEX tasks_ended (ended_at<?)"},
			{"tasks of all types that wait", taskPlan, "SCAN tasks USING INDEX tasks_waiting"},
			{"tasks of all types in flight", taskPlan, "tasks USING INDEX tasks_ends_at"},
			{"tasks of a saga", plan(`DELETE FROM tasks WHERE saga_id = ?`, []byte{1}), "SEARCH tasks USING INDEX tasks_saga (saga_id=?)"},
			{"events that are due", sorts(plan(dueEvents, "s", 1, 1)), "SEARCH outbox USING INDEX outbox_due (sink=? AND due_at<?)"},
			{"events by sink", plan(outboxStats), "SCAN o USING COVERING INDEX outbox_created"},
			{"their last failures", plan(outboxStats), "SEARCH outbox USING INDEX outbox_failed (sink=? AND failed_at>?)"},
			{"what is due and not claimed", plan(unclaimed, 1, 1), "SEARCH sagas USING INDEX sagas_due (wake_at<?)"},
			{"suspects", sorts(plan(noProgress, 1, 1)), "USING INDEX sagas_suspect"},
			{"what is in quarantine", sorts(plan(quarantinedSince, 1, 1)), "SEARCH sagas USING INDEX sagas_live (status=?)"},
			{"tasks that nobody claims", sorts(plan(unworked, 1, 1)), "SEARCH t USING INDEX tasks_waiting (type=? AND created_at<?)"},
			{"their types", sorts(plan(unworked, 1, 1)), "SEARCH tasks USING INDEX tasks_waiting (type>?)"},
			{"live sagas", sorts(plan(live)), "SCAN sagas USING INDEX sagas_live"},
			{"live sagas with an owner", sorts(plan(live)), "SEARCH sagas USING INDEX sagas_owner"},
			{"sagas by status", sorts(plan(byStatus)), "SCAN sagas USING COVERING INDEX sagas_status"},
			{"costs", plan(allCosts, []byte{0}, []byte{9}, 1), "SEARCH sagas USING INDEX sqlite_autoindex_sagas_1 (id>? AND id<?)"},
			{"costs of a definition", sorts(plan(ownCosts, []byte{0}, []byte{9}, 1, "odd")), "SEARCH sagas USING INDEX sagas_definition (definition=? AND id>? AND id<?)"},
			{"labels of a saga", plan(`DELETE FROM saga_labels WHERE (name, value, saga_id) IN (SELECT key, value, ? FROM json_each(?))`, []byte{1}, `{}`),
				"SEARCH saga_labels USING PRIMARY KEY (name=? AND value=? AND saga_id=?)"},
		} {
			if !strings.Contains(tt.plan, tt.index) || strings.Contains(tt.plan, "TEMP B-TREE") {
				t.Errorf("%s: %s does not have %q:\n%s", state, tt.name, tt.index, tt.plan)
			}
		}
		key, status, definition := "sqlite_autoindex_sagas_1 (id>? AND id<?)", "sagas_status (status=? AND id>? AND id<?)", "sagas_definition (definition=? AND id>? AND id<?)"
		label := "SEARCH g USING PRIMARY KEY (name=? AND value=? AND saga_id>? AND saga_id<?)"
		for _, tt := range []struct {
			name  string
			f     journal.Filter
			parts []string
		}{
			{"all", journal.Filter{}, []string{key}},
			{"a text", journal.Filter{Text: "x"}, []string{key}},
			{"a status", journal.Filter{Status: []string{"waiting"}}, []string{status}},
			{"two statuses", journal.Filter{Status: []string{"waiting", "stuck"}, Text: "x"}, []string{status}},
			{"a definition", journal.Filter{Definition: "odd"}, []string{definition}},
			{"a definition and a status", journal.Filter{Definition: "odd", Status: []string{"stuck"}}, []string{definition, status}},
			{"a label", journal.Filter{Labels: map[string]string{"n": "1"}}, []string{label}},
			{"a label and a status", journal.Filter{Labels: map[string]string{"n": "1"}, Status: []string{"stuck"}}, []string{label, status}},
		} {
			lists, reaches := ways(tt.f)
			for i, want := range tt.parts {
				// A list by definition or status sorts the sagas that have an owner, and at the end
				// at most a page for each index.
				one := strings.ReplaceAll(lists[i], "USE TEMP B-TREE FOR ORDER BY", "")
				if owned := want == status || want == definition; !strings.Contains(lists[i], want) || strings.Contains(one, "TEMP B-TREE") || (one != lists[i]) != owned || strings.Contains(lists[i], "sagas_owner") != owned {
					t.Errorf("%s: the list by part %d of %s does not have %q:\n%s", state, i, tt.name, want, lists[i])
				}
				if covered := strings.ReplaceAll(reaches[i], "COVERING INDEX ", "INDEX "); !strings.Contains(covered, want) || strings.Contains(covered, "TEMP B-TREE") || want != label && covered == reaches[i] {
					t.Errorf("%s: part %d of %s does not reach by %q alone:\n%s", state, i, tt.name, want, reaches[i])
				}
			}
		}
	}
}
