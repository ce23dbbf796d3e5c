// Package mutant has the deliberate bugs, or mutants, which show that the simulator and the crash
// tests detect bugs. The product contains none of them.
//
// # A bug is a patch
//
// patches/NAME.patch is one bug. It begins with a sentence that says what the bug does, which
// docs/reliability.md quotes. Then follows a unified
// diff from the root of the module. `git apply` applies it, and `git diff -U2` writes it. Here a
// patch is found by its lines alone: its line numbers do not matter, but its context and the lines
// that it removes must stand at exactly one place of the file. TestPatches checks this for all
// patches whenever the code changes.
//
// # All bugs in one program
//
// To build a program for each bug would take minutes. So [Overlay] writes copies of the patched
// files for the flag -overlay of the go command, in which every function that a patch changes
// chooses between its own body and the body with the bug, by active.Name. A patch may therefore
// change the bodies of functions and imports, and nothing else. RECOURSE_MUTANT switches one bug
// on:
//
//	go run ./internal/test/mutant/overlay bin/_mutants
//	RECOURSE_MUTANT=no-fence go run -overlay bin/_mutants/overlay.json ./internal/test/sim/run
//	RECOURSE_MUTANT=no-fence go test -overlay bin/_mutants/overlay.json ./engine
package mutant
