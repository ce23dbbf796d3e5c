// Command overlay writes the overlay of the deliberate bugs, of all or of those that are named, and
// prints the path of the file for -overlay.
package main

import (
	"fmt"
	"os"

	"recourse/internal/test/mutant"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay DIRECTORY [BUG…]")
		os.Exit(2)
	}
	file, err := write(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(file)
}

func write(dir string, names []string) (string, error) {
	mutants, err := mutant.Named(names...)
	if len(names) == 0 {
		mutants, err = mutant.All()
	}
	if err != nil {
		return "", err
	}
	return mutant.Overlay(dir, mutants)
}
