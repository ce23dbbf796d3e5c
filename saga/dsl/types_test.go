package dsl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga/dsl"
)

// TestTypes holds the definitions of testdata/types to what is said of each. They are right but for
// their types, so that without these (as a document that was published before is read) each passes,
// and fails when it runs.
func TestTypes(t *testing.T) {
	files := glob(t, "testdata/types/*.yaml")
	if len(files) < 20 {
		t.Fatalf("%d definitions", len(files))
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Stored = true
			if _, errs := dsl.Parse(name, read(t, file), o); errs != nil {
				t.Errorf("without types:\n%v", errs)
			}
			_, errs := dsl.Parse(name, read(t, file), options())
			if errs == nil {
				t.Fatal("it is taken")
			}
			want, got := strings.TrimSuffix(file, ".yaml")+".txt", errs.Error()+"\n"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, want)), got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}
