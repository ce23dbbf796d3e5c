package expr

// Check says what an expression may name; it is the compile-time half of
// [Env]. A nil Check allows no roots at all.
type Check struct {
	// Roots are the names allowed: input, steps, vars, saga, result, key,
	// output, error, index, a loop variable. secrets is governed by Secrets.
	Roots []string
	// Step judges steps.<id> and steps["id"]; nil error means allowed, a nil
	// func allows all. An *Error it returns keeps its Code; others become
	// unknown_step. It is called for every use, once each.
	Step func(id string) error
	// Input judges the static part of input.a.b: names up to the first index
	// or computed key. A nil func allows all. Errors become unknown_input.
	Input func(path []string) error
	// Aliases are roots that the environment has under another name than expressions do.
	Aliases map[string]string
	// Secrets are the names allowed as secrets.<NAME>. nil: secrets are not
	// allowed here at all.
	Secrets []string
	// Journaled allows now(), uuid() and random(n): the journal keeps what is computed here, and
	// the environment is a [Journaled].
	Journaled bool
}
