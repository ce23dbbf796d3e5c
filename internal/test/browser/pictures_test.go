package browser

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"recourse/internal/test/chrome"
)

// pictures are the screenshots of docs/images, each in light and dark mode.
var pictures = []struct {
	name, path string
	shows      []string
	top        string // what the picture begins with, a selector; without it, the page's top
}{
	{"sagas", "/", []string{"refund-claim", "compensated", "stuck"}, ""},
	{"undone", "/sagas/{undone}", []string{"the card has expired", "Timeline"}, ""},
	{"cost-of-one", "/sagas/{undone}", []string{"spent", "tokens in"}, "#cost"},
	{"inbox", "/inbox", []string{"It is unknown whether step refund has happened", "Refund 39.90 USD"}, ""},
	{"definition", "/definitions/booking", []string{"Steps"}, ""},
	{"costs", "/costs", []string{"gpt-5-mini"}, ""},
	{"system", "/system", []string{"Nodes", "Inbox"}, ""},
}

// looks are the variants of a screenshot.
var looks = []struct {
	suffix string
	look   chrome.Look
}{
	{"", chrome.Look{Width: 1200, Height: 800}},
	{"-dark", chrome.Look{Width: 1200, Height: 800, Dark: true}},
}

// A larger screenshot makes a page of docs slow to load.
const largest = 200 << 10

// `make pictures` takes the screenshots of docs again: RECOURSE_PICTURES is their directory.
// Without it they go to a temporary directory.
func TestPictures(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("RECOURSE_PICTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	d := newDemo(t, databases["sqlite"](t))
	where := strings.NewReplacer("{undone}", d.saga("refund-claim", "compensated").ID)
	for _, l := range looks {
		w := chrome.Open(t, l.look)
		for _, p := range pictures {
			w.Go(d.url + where.Replace(p.path))
			w.Sees(p.shows...)
			w.Until("it is drawn", `document.readyState === "complete"`)
			if p.top != "" {
				w.Until("it begins with "+p.top, `(e => { if (!e) return false; e.scrollIntoView({block: "start"}); return true; })(document.querySelector("`+p.top+`"))`)
			}
			file := filepath.Join(dir, p.name+l.suffix+".png")
			w.Picture(file)
			if info, err := os.Stat(file); err != nil {
				t.Error(err)
			} else if info.Size() > largest {
				t.Errorf("%s has %d kB, more than %d: show less on it", file, info.Size()>>10, largest>>10)
			}
		}
	}
}

// Docs show all screenshots and no others.
func TestPicturesOfDocs(t *testing.T) {
	t.Parallel()
	taken := []string{}
	for _, p := range pictures {
		for _, l := range looks {
			taken = append(taken, p.name+l.suffix+".png")
		}
	}
	slices.Sort(taken)
	there := []string{}
	entries, err := os.ReadDir("../../../docs/images")
	if err != nil {
		t.Fatalf("%v: run `make pictures`", err)
	}
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if !slices.Equal(there, taken) {
		t.Errorf("docs/images has %q, and TestPictures takes %q: run `make pictures`", there, taken)
	}
	shown := picturesIn(t, os.DirFS("../../.."))
	for _, name := range taken {
		if !slices.Contains(shown, name) {
			t.Errorf("no page of docs shows %s", name)
		}
	}
	for _, name := range shown {
		if !slices.Contains(taken, name) {
			t.Errorf("docs show %s, which no test takes", name)
		}
	}
}

var ofImages = regexp.MustCompile(`images/([A-Za-z0-9_.-]+\.(?:png|jpg|gif|svg|webp))`)

// picturesIn returns the screenshots that README.md and docs refer to.
func picturesIn(t *testing.T, root fs.FS) (names []string) {
	t.Helper()
	pages, err := fs.Glob(root, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md") {
		text, err := fs.ReadFile(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ofImages.FindAllSubmatch(text, -1) {
			names = append(names, path.Base(string(m[1])))
		}
	}
	if len(names) == 0 {
		t.Error("docs show no pictures")
	}
	return names
}
