package mutant

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"
)

// Whether the patched code compiles is seen by `make mutants`.
func TestPatches(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Overlay(t.TempDir(), all); err != nil {
		t.Error(err)
	}
}

// docs/reliability.md has a table with a row for each patch, and names bugs in the rows of the
// invariants that detect them.
func TestDocs(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	effects, invariants := make(map[string]string), make(map[string][]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.*?) \\| *\\d+ \\| *\\d+ \\|$").FindAllStringSubmatch(string(text), -1) {
		effects[row[1]] = row[2]
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| .*`).FindAllStringSubmatch(string(text), -1) {
		for _, quoted := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[0], -1) {
			invariants[quoted[1]] = append(invariants[quoted[1]], row[1])
		}
	}
	for _, m := range all {
		first, size := utf8.DecodeRuneInString(m.Effect)
		want := string(unicode.ToLower(first)) + strings.TrimSuffix(m.Effect[size:], ".")
		if got := effects[m.Name]; got != want {
			t.Errorf("docs/reliability.md says of the bug %s %q, its patch says %q", m.Name, got, want)
		}
		delete(effects, m.Name)
		for _, number := range invariants[m.Name] {
			if m.Invariant != 0 && number != strconv.Itoa(m.Invariant) {
				t.Errorf("docs/reliability.md says that invariant %s detects the bug %s, its patch says %d", number, m.Name, m.Invariant)
			}
		}
	}
	for name := range effects {
		t.Errorf("docs/reliability.md has a row for the bug %s, which has no patch", name)
	}
}

const code = `package p

import "fmt"

func one(n int) (int, error) {
	if n > 0 {
		return 0, fmt.Errorf("%d", n)
	}
	return n, nil
}

func two() {
	fmt.Println("a")
	fmt.Println("b")
}

func three() { fmt.Println("a") }
`

// patch returns the patch of a bug with two changes, as `git diff` writes it.
func patch(edits ...string) string {
	return strings.NewReplacer(edits...).Replace(`Two bugs in one.
Detected by invariant 4: ` + "`without an intent`" + `

diff --git a/p/p.go b/p/p.go
index 1c199e4..108634f 100644
--- a/p/p.go
+++ b/p/p.go
@@ -105,4 +105,5 @@ func one(n int) (int, error) {
 	if n > 0 {
-		return 0, fmt.Errorf("%d", n)
+		slices.Sort([]int{n})
+		return 0, nil
 	}
 	return n, nil
@@ -1,2 +1,4 @@
 import "fmt"
+import "slices"
+
 
@@ -11,3 +13,2 @@ func two() {
-	fmt.Println("a")
 	fmt.Println("b")
 }
`)
}

func merged(t *testing.T, text string) (string, error) {
	t.Helper()
	m, err := parse("both.patch", text)
	if err != nil {
		return "", err
	}
	files, err := overlay(fstest.MapFS{"p/p.go": {Data: []byte(code)}}, []Mutant{m})
	return string(files["p/p.go"]), err
}

func TestMerge(t *testing.T) {
	got, err := merged(t, patch())
	want := `package p; import activeMutant "` + pkg + `/active"; import "slices"

import "fmt"

func one(n int) (int, error) { if activeMutant.Name == "both" { return func() (int, error) {
//line both.patch, p.go:7

	if n > 0 {
		slices.Sort([]int{n})
		return 0, nil
	}
	return n, nil
}() };
//line p.go:5

	if n > 0 {
		return 0, fmt.Errorf("%d", n)
	}
	return n, nil
}

func two() { if activeMutant.Name == "both" { func() {
//line both.patch, p.go:15

	fmt.Println("b")
}(); return };
//line p.go:12

	fmt.Println("a")
	fmt.Println("b")
}

func three() { fmt.Println("a") }
`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no diff":              {"A bug.\n", "there is no empty line before the diff"},
		"no sentence":          {patch("Two bugs in one.", "Two bugs"), "the first line is not a sentence"},
		"no check":             {patch("Detected by", "Noticed by"), "the second line is not"},
		"not only a check":     {patch("intent`\n", "intent`\nand more\n"), "the second line is not"},
		"two files":            {patch("+++ b/p/p.go", "+++ b/p/q.go"), "is not followed by"},
		"no hunks":             {patch("@@ -", "@ -"), "instead of `@@"},
		"no counts":            {patch("@@ -1,2", "@@ -1"), "does not begin with"},
		"a line is missing":    {patch(" import \"fmt\"\n", ""), "the counts do not fit the lines"},
		"a line too many":      {patch("+import", "+\n+import"), "the counts do not fit the lines"},
		"the end is missing":   {strings.TrimSuffix(patch(), " }\n"), "the end instead of"},
		"something follows":    {patch() + "more\n", "\"more\" instead of `--- a/FILE`"},
		"the code has changed": {patch(" \tif n > 0 {", " \tif n > 1 {"), "both.patch does not apply: 0 places of p/p.go"},
		"several places":       {patch("@@ -11,3 +13,2 @@ func two() {\n-\tfmt.Println(\"a\")\n \tfmt.Println(\"b\")\n }\n", "@@ -11,1 +13,0 @@\n-}\n"), "does not apply: 2 places"},
		"only part of a line":  {patch(" \tif n > 0 {", " if n > 0 {"), "does not apply: 0 places"},
		"no such file":         {patch("p/p.go", "p/q.go"), "both.patch does not apply: open p/q.go"},
		"a new declaration":    {patch("+import \"slices\"", "+var slices = 1"), "changes more of p/p.go than bodies of functions and imports"},
		"another signature":    {patch(" \tfmt.Println(\"b\")\n }\n", " \tfmt.Println(\"b\")\n }\n@@ -1,1 +1,1 @@\n-func three() { fmt.Println(\"a\") }\n+func three() int { return 1 }\n"), "changes more of p/p.go"},
		"not Go":               {patch("+import \"slices\"", "+import slices"), "both.patch:4:"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := merged(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
