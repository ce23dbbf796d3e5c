//go:build !linux

package dsl_test

import "time"

var began = time.Now()

// cpu is the time that has passed.
func cpu() time.Duration { return time.Since(began) }
