//go:build !race

package dsl_test

const slower = 1
