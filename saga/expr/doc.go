// Package expr is the expression language of saga definitions: of ${…}, and of when, that, found,
// until and if.
//
// expr-lang/expr parses. Everything after that is this package's own, because the language
// guarantees more than a general one does:
//
//   - Numbers are exact. They are decimals with the digits of their text, never
//     binary floating point; a bare path copies the literal.
//   - A missing field is an error, unless ?. or ?? is used.
//   - The names in an expression are checked when it is compiled ([Check]), and
//     all errors have byte offsets.
//   - Its cost is limited: [MaxSource], [MaxDepth], [DefaultFuel]. No input panics.
//   - It is pure: no clock, no random numbers, no dependence on the order of
//     maps. The same environment gives the same bytes. If the result is
//     journaled ([Check]), an environment may provide a time and random bytes
//     ([Journaled]).
//   - Secrets are references. A rendering that may contain them is sealed, and
//     only [Unseal] handles a value.
//
// A bare expression is a [Program], made by [Compile]. A value of a definition is a [Template],
// built from [ParseText], [Const], [List] and [Map]. Both read their roots from an [Env]. The page
// for users is docs/expressions.md.
package expr
