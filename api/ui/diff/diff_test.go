package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	twenty := func(change map[int]string) string {
		var b strings.Builder
		for i := 1; i <= 20; i++ {
			if text, ok := change[i]; ok {
				b.WriteString(text)
				continue
			}
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"the same", "a\nb\n", "a\nb", nil},
		{"line ends of another system", "a\r\nb\r\n", "a\nb\n", nil},
		{"all new", "", "a\nb\n", []string{"+0:1 a", "+0:2 b"}},
		{"all gone", "a\nb\n", "", []string{"-1:0 a", "-2:0 b"}},
		{"one changed", "a\nb\nc\n", "a\nB\nc\n", []string{" 1:1 a", "-2:0 b", "+0:2 B", " 3:3 c"}},
		{"one put in", "a\nc\n", "a\nb\nc\n", []string{" 1:1 a", "+0:2 b", " 2:3 c"}},
		{"moved", "a\nb\nc\n", "b\nc\na\n", []string{"-1:0 a", " 2:1 b", " 3:2 c", "+0:3 a"}},
		{"the longest stays", "a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n", []string{"-1:0 a", "-2:0 b", " 3:1 c", "-4:0 a", " 5:2 b", "+0:3 a", " 6:4 b", " 7:5 a", "+0:6 c"}},
		{"far from the change", twenty(nil), twenty(map[int]string{10: "other\n"}), []string{"…0:0 6 lines are the same", " 7:7 line 7", " 8:8 line 8", " 9:9 line 9",
			"-10:0 line 10", "+0:10 other", " 11:11 line 11", " 12:12 line 12", " 13:13 line 13", "…0:0 7 lines are the same"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, l := range Lines(tt.old, tt.new) {
				got = append(got, fmt.Sprintf("%s%d:%d %s", l.Mark, l.Old, l.New, l.Text))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// In every diff the unchanged and removed lines are the old text, and the unchanged and added ones
// the new text. Texts too large to compare are shown whole.
func TestDiffIsComplete(t *testing.T) {
	long := func(of string, n int) string { return strings.Repeat(of+"\n", n) }
	for _, pair := range [][2]string{
		{"x\ny\nz\ny\n", "y\nx\ny\n"},
		{"1\n2\n3\n4\n5\n", "5\n4\n3\n2\n1\n"},
		{long("a", 3000) + "m\n", long("b", 3000) + "n\n"},
	} {
		var before, after strings.Builder
		for _, l := range Lines(pair[0], pair[1]) {
			if l.Mark == skipMark {
				t.Fatalf("a line that is left out: %v", l)
			}
			if l.Mark != "+" {
				before.WriteString(l.Text + "\n")
			}
			if l.Mark != "-" {
				after.WriteString(l.Text + "\n")
			}
		}
		if before.String() != pair[0] || after.String() != pair[1] {
			t.Errorf("%.20q to %.20q: the diff is of %.20q and %.20q", pair[0], pair[1], before.String(), after.String())
		}
	}
}
