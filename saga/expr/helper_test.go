package expr

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
)

// sample is the environment most tables use; roots come in every form.
func sample() MapEnv {
	return MapEnv{
		"input": Raw(`{"amount": 19.10, "big": 9007199254740993, "huge": 1e400, "name": "Ada", "nil": null, "yes": true,
			"order": {"z": 1, "a": [1, 2, 3], "m": "<&>"}, "tags": ["b", "a", "b"],
			"lines": [{"sku": "x", "qty": 2, "price": 1.50}, {"sku": "y", "qty": 1, "price": 0.10}], "text": "it's ${secrets.PAY_KEY} $"}`),
		"steps": lazy{
			"charge":  lazy{"output": Raw(`{"id":"ch_1","amount":129.90}`)},
			"skipped": lazy{"output": nil},
		},
		"vars":  map[string]any{"pay": "https://pay.example", "n": json.Number("3")},
		"item":  []any{json.Number("1"), json.Number("1.0"), "x"},
		"index": 2,
		"key":   "k-1",
	}
}

// lazy is an Object without JSON.
type lazy map[string]any

func (l lazy) Field(name string) (any, bool) { v, ok := l[name]; return v, ok }
func (l lazy) Names() []string               { return sortedKeys(l) }

// kept is an environment whose values are journaled.
type kept struct{ MapEnv }

func (kept) Now() string { return "2026-11-22T08:30:00.000Z" }

func (kept) Random(n int) [16]byte {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	return [16]byte(sum[:16])
}

func sampleCheck() *Check {
	return &Check{
		Roots:   []string{"input", "steps", "vars", "item", "index", "key", "error"},
		Secrets: []string{"PAY_KEY", "MAIL_KEY"}, Journaled: true,
	}
}

func mustCompile(tb testing.TB, src string) *Program {
	tb.Helper()
	p, errs := Compile(src, sampleCheck())
	if len(errs) > 0 {
		tb.Fatalf("Compile(%q) = %v", src, errs[0])
	}
	return p
}

func mustText(tb testing.TB, src string) *Template {
	tb.Helper()
	t, errs := ParseText(src, sampleCheck())
	if len(errs) > 0 {
		tb.Fatalf("ParseText(%q) = %v", src, errs[0])
	}
	return t
}

// evalJSON evaluates src in the sample and gives the result as JSON, or the
// error's code in angle brackets.
func evalJSON(tb testing.TB, src string, env Env) string {
	tb.Helper()
	p, errs := Compile(src, sampleCheck())
	if len(errs) > 0 {
		return "<" + errs[0].Code + ">"
	}
	v, err := p.Eval(env)
	if err != nil {
		e, ok := errors.AsType[*EvalError](err)
		if !ok {
			tb.Fatalf("Eval(%q) error is a %T: %v", src, err, err)
		}
		if e.Expr == "" || e.Detail == "" {
			tb.Errorf("Eval(%q) error is bare: %+v", src, e)
		}
		return "<" + e.Code + ">"
	}
	buf, err := newState(nil).encode(nil, v)
	if err != nil {
		tb.Fatalf("encode result of %q: %v", src, err)
	}
	return string(buf)
}
