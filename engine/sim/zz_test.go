package sim

import "testing"

func TestDefs(t *testing.T) { definitions() }
