package wire

import "testing"

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		sql            []string
		outside        bool
		commit, single bool
	}{
		{[]string{"BEGIN ISOLATION LEVEL READ COMMITTED", "INSERT INTO t VALUES (1)", "COMMIT"}, true, true, false},
		{[]string{"commit"}, false, true, false},
		{[]string{"INSERT INTO t VALUES (1)"}, true, true, true},
		{[]string{"\n\t(with x as (select 1) select 1)"}, true, false, true},
		{[]string{"WITH x AS (INSERT INTO t VALUES (1) RETURNING 1) UPDATE u SET n = 1"}, true, true, true},
		{[]string{"INSERT INTO t VALUES (1)"}, false, false, true},
		{[]string{"BEGIN", "UPDATE t SET n = 1"}, true, false, true},
		{[]string{"SELECT 1", "LISTEN x", ""}, true, false, true},
		{[]string{"ROLLBACK"}, false, false, true},
		{nil, true, false, true},
	} {
		u := &unit{single: true, sql: tt.sql}
		u.judge(tt.outside)
		if u.commit != tt.commit || u.single != tt.single {
			t.Errorf("%q, outside of a transaction %v: commit %v, single %v; want %v, %v", tt.sql, tt.outside, u.commit, u.single, tt.commit, tt.single)
		}
	}
}
