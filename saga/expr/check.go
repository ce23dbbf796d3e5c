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
	// Aliases are roots that the environment has under another name than expressions do.
	Aliases map[string]string
	// Secrets are the names allowed as secrets.<NAME>. nil: secrets are not
	// allowed here at all.
	Secrets []string
	// Journaled allows now(), uuid() and random(n): the journal keeps what is computed here, and
	// the environment is a [Journaled].
	Journaled bool
	// Type gives what is known of a root's value; nil is any. An expression that fails by type is
	// then an error, with the code that it would have when it runs. A nil func asks for no types.
	Type func(root string) *Type
	// Lenient says that an expression that fails by type is no error: nothing is known of its
	// value.
	Lenient bool
	// Fact gives what conditions around the expression have said of a path (see [Program.Facts]):
	// the kinds that it may still be of. A nil func knows of none.
	Fact func(path string) Kinds
	// Want is what the value must be, as far as types are known; 0: anything. Rule says so, in an
	// error with the code WantCode.
	Want           Kinds
	Rule, WantCode string
}
