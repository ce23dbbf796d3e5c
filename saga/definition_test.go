package saga

import "testing"

func TestSplitQuery(t *testing.T) {
	for _, tt := range []struct {
		path, base string
		query      bool
	}{
		{"refund", "refund", false},
		{"refund.verify", "refund", true},
		{"pages[3].refund.verify", "pages[3].refund", true},
		{"pages[3].verify", "pages[3].verify", false}, // a step whose id is verify
		{"pages[3].verify.verify", "pages[3].verify", true},
		{"pages[3]", "pages[3]", false},
		{"pages[3].verify[0]", "pages[3].verify[0]", false}, // an iteration of a loop whose id is verify
		{"refund[0]", "refund[0]", false},
		{"refund.verify[12]", "refund[12]", true},
		{"]", "]", false},
		{"", "", false},
	} {
		base, query := SplitQuery(tt.path)
		if base != tt.base || query != tt.query {
			t.Errorf("SplitQuery(%q) = %q, %v, want %q, %v", tt.path, base, query, tt.base, tt.query)
		}
		if query && QueryPath(base) != tt.path {
			t.Errorf("QueryPath(%q) = %q, want %q", base, QueryPath(base), tt.path)
		}
	}
}
