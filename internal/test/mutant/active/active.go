// Package active says which deliberate bug is switched on. The code that package mutant generates
// imports it; nothing else in the product does.
package active

import "os"

// Name is the bug that is switched on, "" for none. It must not change while other goroutines run.
var Name = os.Getenv("RECOURSE_MUTANT")
