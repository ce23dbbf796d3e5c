package llm

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"recourse/saga/dsl"
)

// TestPage holds docs/llm.md to an example that compiles, and to naming every code and default.
func TestPage(t *testing.T) {
	src, err := os.ReadFile("../../../docs/llm.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(src)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("there is no example")
	}
	if _, errs := dsl.Parse("ask.yaml", []byte(block[1]), dsl.Options{Kinds: []dsl.Kind{Kind(Config{})}}); errs != nil {
		t.Errorf("the example does not compile:\n%v", errs)
	}
	for _, word := range []string{"`" + CodeMismatch, "`" + CodeRefused, "`" + CodeModel, "`" + CodeContext, "`" + CodeAnswer, "`" + CodeProvider, "`" + courseHeader,
		"`unpriced-model`", "`currency_mixed`", strconv.Itoa(DefaultMaxTokens), "120s", "up to " + strconv.Itoa(maxModels)} {
		if !strings.Contains(page, word) {
			t.Errorf("the page does not name %s", word)
		}
	}
}
