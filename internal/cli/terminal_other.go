//go:build !unix

package cli

import "os"

// sizeOf is not supported on this platform; COLUMNS and LINES are used.
func sizeOf(*os.File) (columns, rows int) { return 0, 0 }
