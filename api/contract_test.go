package api

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/go-cmp/cmp"
)

// TestContractRoutes: the server and the contract have the same routes.
func TestContractRoutes(t *testing.T) {
	x := newFixture(t)
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage
	}
	x.do("GET", "/openapi.json", "").want(200).into(&doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
	want, got := map[string]bool{}, map[string]bool{}
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				want[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	param := regexp.MustCompile(`/:([a-z]+)`)
	for _, r := range newServer(x.cfg).Routes() {
		if strings.HasSuffix(r.Path, "/*") {
			continue // what recourse does not journal
		}
		got[r.Method+" "+strings.ReplaceAll(param.ReplaceAllString(r.Path, "/{$1}"), `\:`, ":")] = true
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("contract and routes differ (-contract +routes): %s", d)
	}
}

// TestContractCatches: the check against the contract can fail. It rejects a response with a field
// too many, with a field too few, and of another status.
func TestContractCatches(t *testing.T) {
	router, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	good := `{"status":"ok"}`
	for _, tt := range []struct {
		status int
		body   string
		ok     bool
	}{{200, good, true}, {200, `{"status":"ok","more":1}`, false}, {200, `{}`, false}, {200, `{"status":1}`, false}, {418, good, false}} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		route, params, err := router.FindRoute(req)
		if err != nil {
			t.Fatal(err)
		}
		in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		err = router.response(in, tt.status, http.Header{"Content-Type": {"application/json"}}, []byte(tt.body))
		if (err == nil) != tt.ok {
			t.Errorf("%d %s: %v", tt.status, tt.body, err)
		}
	}
}

// TestCodesAreDocumented: docs/errors.md has every code of the table with its status, and no other.
func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for c, e := range codes {
		want[string(c)] = http.StatusText(e.status)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\|").FindAllStringSubmatch(string(page), -1) {
		status := 0
		for _, d := range m[2] {
			status = status*10 + int(d-'0')
		}
		got[m[1]] = http.StatusText(status)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/errors.md and the table differ (-table +page): %s", d)
	}
}

// TestCodesAreInTheTable: the table has every code that a handler uses.
func TestCodesAreInTheTable(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`fail\("([a-z_]+)"`)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range used.FindAllSubmatch(src, -1) {
			if _, ok := codes[code(m[1])]; !ok {
				t.Errorf("%s gives %s, which is not in the table", f.Name(), m[1])
			}
		}
	}
}

// TestRefusalsAreInTheTable: the table has every code with which a saga refuses a command.
func TestRefusalsAreInTheTable(t *testing.T) {
	var src []byte
	for _, file := range []string{"command.go", "await.go", "own.go"} {
		text, err := os.ReadFile("../saga/machine/" + file)
		if err != nil {
			t.Fatal(err)
		}
		src = append(src, text...)
	}
	found := regexp.MustCompile(`(?:refusal\(|, Failure: saga\.Failure\{Code: )"([a-z_]+)"`).FindAllSubmatch(src, -1)
	if len(found) < 10 {
		t.Fatalf("only %d refusals found: the pattern is out of date", len(found))
	}
	// Handlers refuse these themselves.
	except := map[string]bool{"bad_mode": true, "unknown_command": true, "bad_signal": true}
	for _, m := range found {
		if _, ok := codes[code(m[1])]; !ok && !except[string(m[1])] {
			t.Errorf("%s is not in the table", m[1])
		}
	}
}

func TestUnknownRoutes(t *testing.T) {
	x := newFixture(t)
	for _, path := range []string{"/v1", "/v1/", "/v2/sagas", "/v1/sagas/", "/favicon.ico", "/v1/sagas/x/y/z", "/v1/../etc/passwd"} {
		x.do("GET", path, "", outside).problem(404, "route_not_found")
	}
	a := x.do("DELETE", "/v1/sagas", "", outside)
	a.problem(405, "method_not_allowed")
	if got := a.Header.Get("Allow"); !strings.Contains(got, "GET") || !strings.Contains(got, "POST") {
		t.Errorf("Allow %q", got)
	}
}
