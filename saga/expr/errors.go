package expr

import (
	"fmt"
	"strconv"
)

// Codes of [Error], which Compile finds, then codes of [EvalError], which an evaluation finds.
const (
	CodeSyntax           = "expr_syntax"          // not an expression, or an unclosed ${
	CodeTooLong          = "too_long"             // over MaxSource bytes
	CodeTooDeep          = "too_deep"             // nested deeper than MaxDepth, or with too many parts
	CodeUnsupported      = "unsupported"          // valid syntax that this language does not have
	CodeUnknownRoot      = "unknown_root"         // an unknown name
	CodeUnknownStep      = "unknown_step"         // Check.Step refused it
	CodeUnknownInput     = "unknown_input"        // the input has no such field
	CodeUnknownField     = "unknown_field"        // no schema has such a field
	CodeUnknownFunction  = "unknown_function"     // no such function
	CodeWrongArguments   = "wrong_arguments"      // too few or too many arguments
	CodeUnknownSecret    = "unknown_secret"       // not one of Check.Secrets
	CodeSecretNotAllowed = "secret_not_allowed"   // secrets may not be used in this place
	CodeNotJournaled     = "not_journaled"        // now(), uuid() or random() in a place whose value is not journaled
	CodeSecretInExpr     = "secret_in_expression" // a secret that is not the whole of a ${…}
	CodeBadPattern       = "bad_pattern"          // not an RE2 pattern, or too large a one (also an EvalError)
	CodeMissingField     = "missing_field"        // no such field or index, or a field of null
	CodeNotAvailable     = "not_available"        // the root has no value here
	CodeWrongType        = "wrong_type"           // an operator or function cannot take this type
	CodeNotABool         = "not_a_bool"           // a condition that is not true or false
	CodeNotText          = "not_text"             // null, an object or a list inside text
	CodeBadValue         = "bad_value"            // text that is not what the function reads (number, base64, JSON …)
	CodeNumberTooLarge   = "number_too_large"     // beyond MaxDigits digits or MaxExponent
	CodeDivisionByZero   = "division_by_zero"     // x / 0 or x % 0
	CodeOutOfFuel        = "out_of_fuel"          // the evaluation took too many steps
	CodeSecretInPlain    = "secret_in_plain"      // a secret in a rendering that is not sealed
	CodeDollarBeforeSeal = "dollar_before_secret" // text ending in $ directly before a secret
)

// Error is an error in an expression or template as written.
//
// Offset counts bytes in the text that was given to [Compile] or [ParseText]. Detail says how to
// fix the error and is safe to show.
type Error struct {
	Offset       int
	Code, Detail string
}

// Error implements error as "offset N: code: detail".
func (e *Error) Error() string {
	return "offset " + strconv.Itoa(e.Offset) + ": " + e.Code + ": " + e.Detail
}

// EvalError is the failure of an evaluation. Detail names types, fields and functions, but never
// values of data or secrets, so it may be journaled. Expr is the source of the expression, as
// written in the definition.
type EvalError struct {
	Code, Detail, Expr string
}

// Error implements error as "code: detail (in: expr)".
func (e *EvalError) Error() string {
	if e.Expr == "" {
		return e.Code + ": " + e.Detail
	}
	return e.Code + ": " + e.Detail + " (in: " + e.Expr + ")"
}

// fail makes an evaluation error. The program that runs adds its source.
func fail(code, format string, args ...any) *EvalError {
	return &EvalError{Code: code, Detail: fmt.Sprintf(format, args...)}
}
