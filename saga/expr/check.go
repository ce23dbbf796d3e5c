package expr

// Check says which names an expression may use. It is the compile-time half of
// [Env]. A nil Check allows no roots at all.
type Check struct {
	// Roots are the allowed names: input, steps, vars, saga, result, key, output, error, index, a
	// loop variable. Secrets governs secrets.
	Roots []string
	// Step checks steps.<id> and steps["id"]. A nil error means allowed; a nil func allows all. The
	// Code of an *Error is kept; other errors become unknown_step. It is called once for every use.
	Step func(id string) error
	// Aliases maps roots of expressions to their names in the environment.
	Aliases map[string]string
	// Secrets are the names allowed as secrets.<NAME>. nil: secrets are not
	// allowed here at all.
	Secrets []string
	// Journaled allows now(), uuid() and random(n). The caller then journals the result, and the
	// environment is a [Journaled].
	Journaled bool
	// Type returns the type of a root, as far as it is known; nil is any. An expression whose type
	// is wrong is then an error, with the code that it would have when it runs. A nil func turns
	// type checks off.
	Type func(root string) *Type
	// Lenient says that an expression with a wrong type is not an error. Its type is then unknown.
	Lenient bool
	// Fact returns the kinds that a path may have, by the conditions around the expression (see
	// [Program.Facts]). A nil func knows of none.
	Fact func(path string) Kinds
	// Want are the kinds that the value must have, as far as types are known; 0: any. Rule is the
	// text of the error, which has the code WantCode.
	Want           Kinds
	Rule, WantCode string
}
