package dsl_test

import (
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/test/golden"
	"recourse/saga/dsl"
)

// TestTypes holds the definitions of testdata/types to the messages for each. Only their
// types are wrong: without type checks, as a published document is read, each is valid, and fails
// only when it runs.
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
			golden.Check(t, "types/"+strings.TrimSuffix(name, ".yaml")+".txt", errs.Error()+"\n")
		})
	}
}
