// Package mutant has the deliberate bugs, or mutants, which show that the simulator and the crash
// tests detect bugs. The product contains none of them.
//
// # A bug is a patch
//
// patches/NAME.patch is one bug. Its first line says what the bug does; docs/reliability.md quotes
// it. Its second line says which check detects the bug, and quotes a part of the violation;
// `make mutants` fails if no such violation occurs. After an empty line follows a unified diff from
// the root of the module, as `git diff -U2` writes and `git apply` applies it. Its line numbers do
// not matter: its context and the lines that it removes must be in exactly one place of the file.
// TestPatches checks that each patch applies to the present code.
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
