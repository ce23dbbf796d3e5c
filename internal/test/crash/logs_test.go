package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func (f *fleet) log(i int) string { return filepath.Join(f.dir, "node-"+strconv.Itoa(i)+".log") }

// logged counts how often a node logged a text.
func (f *fleet) logged(i int, text string) int {
	b, err := os.ReadFile(f.log(i))
	if err != nil {
		f.t.Error(err)
	}
	return bytes.Count(b, []byte(text))
}

// count counts how often all nodes logged a text.
func (f *fleet) count(text string) int {
	n := 0
	for i := range f.up {
		n += f.logged(i, text)
	}
	return n
}

func (f *fleet) tail(i, lines int) string {
	b, err := os.ReadFile(f.log(i))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
