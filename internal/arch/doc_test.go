package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	// named is a file, or a file and a function in it, as docs/architecture.md names them.
	named = regexp.MustCompile("`([a-z][\\w/]*\\.go)`(?:\\s+`(\\w+)`)?")
	// folder is a package in the documentation.
	folder = regexp.MustCompile("`((?:api|saga|engine|journal|internal|migrations|retry|compensation|catalog|trigger)(?:/\\w+)*)`")
)

// absent lists the files, functions and packages that a document names and that do not exist. It
// also returns how many it has looked for.
func absent(doc string) (wrong []string, checked int) {
	root := filepath.Join("..", "..")
	for _, m := range named.FindAllStringSubmatch(doc, -1) {
		checked++
		src, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			wrong = append(wrong, m[1])
		} else if m[2] != "" && !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|var )`+m[2]+`\b`).Match(src) {
			wrong = append(wrong, m[1]+" "+m[2])
		}
	}
	for _, m := range folder.FindAllStringSubmatch(doc, -1) {
		checked++
		if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
			wrong = append(wrong, m[1])
		}
	}
	return wrong, checked
}

func TestArchitecturePage(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	wrong, checked := absent(string(doc))
	if checked < 50 {
		t.Errorf("only %d names found: the pattern is out of date", checked)
	}
	for _, w := range wrong {
		t.Errorf("docs/architecture.md names %s, which does not exist", w)
	}
}

func TestArchitecturePageCanFail(t *testing.T) {
	for _, doc := range []string{"`engine/none.go`", "`engine/lane.go` `noFunction`", "`engine/lane.go`\n   `noFunction`", "`internal/none`"} {
		if wrong, _ := absent(doc); len(wrong) != 1 {
			t.Errorf("%q: %q is absent, want one", doc, wrong)
		}
	}
}
