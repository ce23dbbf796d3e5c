package expr

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// page is what users read about the language.
func page(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// fenced gives the bodies of the ```lang blocks.
func fenced(text, lang string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "\n```"+lang+"\n")[1:] {
		body, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, body)
	}
	return blocks
}

func TestPageExamples(t *testing.T) {
	text := page(t)
	input := fenced(text, "json")
	if len(input) != 1 {
		t.Fatalf("the page has %d json blocks, want the one input", len(input))
	}
	env := kept{MapEnv{"input": Raw(input[0])}}
	lines := strings.Split(strings.Join(fenced(text, "expr"), "\n"), "\n")
	if len(lines) < 100 {
		t.Fatalf("the page has only %d examples; are the blocks found?", len(lines))
	}
	for _, line := range lines {
		src, want, ok := strings.Cut(line, " → ")
		if !ok {
			t.Errorf("not an example: %q", line)
			continue
		}
		if got := pageResult(t, src, env); got != want {
			t.Errorf("%s\n got %s\nwant %s", src, got, want)
		}
	}
}

// pageResult is the result as the page writes it.
func pageResult(tb testing.TB, src string, env Env) string {
	tb.Helper()
	tpl, errs := ParseText("${"+src+"}", sampleCheck())
	if errs != nil {
		return errs[0].Error()
	}
	raw, err := tpl.JSON(env)
	if e, ok := errors.AsType[*EvalError](err); ok {
		return "error " + e.Code
	}
	return string(raw)
}

func TestPageIsComplete(t *testing.T) {
	text := page(t)
	examples := strings.Join(fenced(text, "expr"), "\n")
	for _, name := range functionNames() {
		if !strings.Contains(examples, name+"(") {
			t.Errorf("the page has no example of %s()", name)
		}
	}
	for _, code := range []string{
		CodeSyntax, CodeTooLong, CodeTooDeep, CodeUnsupported, CodeUnknownRoot, CodeUnknownStep, CodeUnknownInput, CodeUnknownField,
		CodeUnknownFunction, CodeWrongArguments, CodeUnknownSecret, CodeSecretNotAllowed, CodeNotJournaled, CodeSecretInExpr, CodeBadPattern,
		CodeMissingField, CodeNotAvailable, CodeWrongType, CodeNotABool, CodeNotText, CodeBadValue, CodeNumberTooLarge,
		CodeDivisionByZero, CodeOutOfFuel, CodeSecretInPlain, CodeDollarBeforeSeal,
	} {
		if !strings.Contains(text, "`"+code+"`") {
			t.Errorf("the page does not explain %s", code)
		}
	}
}
