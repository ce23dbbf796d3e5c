package saga

import (
	"strconv"
	"testing"
)

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

func TestExpectHolds(t *testing.T) {
	plain, ranges := &Expect{}, &Expect{Status: []StatusRange{{200, 204}, {404, 404}}}
	for status, want := range map[int][2]bool{0: {}, 199: {}, 200: {true, true}, 204: {true, true}, 205: {true, false}, 299: {true, false}, 300: {}, 403: {}, 404: {false, true}, 405: {}} {
		if got := [2]bool{plain.Holds(status), ranges.Holds(status)}; got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}

// The steps that an agent does on its own are in no definition, and only a session has them.
func TestStepOfAPath(t *testing.T) {
	pay, own := &Step{ID: "pay"}, &Step{ID: "own"}
	d := &Definition{ByID: map[string]*Step{"pay": pay, "own": own}}
	session := &Definition{ByID: d.ByID, Session: &Session{}}
	for path, want := range map[string][2]*Step{"pay": {pay, pay}, "each[3].pay": {pay, pay}, "none": {}, OwnPrefix + "pay": {pay, ownStep}} {
		if got := [2]*Step{d.Step(path), session.Step(path)}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestDetails(t *testing.T) {
	var findings []Finding
	for i, want := range []string{"", "/a: 0", "/a: 0; 1", "/a: 0; 1; 2", "/a: 0; 1; 2; 3", "/a: 0; 1; 2; 3; 4", "/a: 0; 1; 2; 3; 4; …", "/a: 0; 1; 2; 3; 4; …"} {
		if got := Details(findings); got != want {
			t.Errorf("%d findings: %q, want %q", i, got, want)
		}
		f := Finding{Detail: strconv.Itoa(i)}
		if i == 0 {
			f.Pointer = "/a"
		}
		findings = append(findings, f)
	}
}

func TestRunTarget(t *testing.T) {
	for text, want := range map[string]struct {
		name    string
		version int
		ok      bool
	}{"refund": {"refund", 0, true}, "refund@v3": {"refund", 3, true}, "refund@3": {"refund", 3, true}, "refund@v1": {"refund", 1, true}, "refund@v0": {"refund", 0, false}, "refund@v-1": {"refund", -1, false}, "refund@": {"refund", 0, false}, "refund@new": {"refund", 0, false}} {
		if name, version, ok := RunTarget(text); name != want.name || ok != want.ok || version != want.version {
			t.Errorf("%s: %s, %d, %v, want %+v", text, name, version, ok, want)
		}
	}
}
