package main

import "testing"

func TestRunForwardsTheStatus(t *testing.T) {
	for _, tt := range []struct {
		script string
		want   int
	}{
		{`test -n "$RECOURSE_TEST_POSTGRES"`, 0},
		{`exit 7`, 7},
		{`kill -TERM $$`, 143},
	} {
		got, err := run(nil, []string{"sh", "-c", tt.script})
		if got != tt.want || err != nil {
			t.Errorf("run(%s) = %d, %v, want %d", tt.script, got, err, tt.want)
		}
	}
	if got, err := run(nil, []string{"/no/such/command"}); got != 1 || err == nil {
		t.Errorf("run of nothing = %d, %v, want 1 and an error", got, err)
	}
}
