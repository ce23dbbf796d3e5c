// Package expr is the expression language of saga definitions: what stands in
// ${…}, and in when, that, found, until and if.
//
// expr-lang/expr parses; everything after that is this package's own, because
// the language must hold what a general one does not promise:
//
//   - Numbers are exact. They are decimals of the text they came as, never
//     binary floating point; a bare path copies the literal.
//   - A missing field is an error, unless ?. or ?? is used.
//   - What an expression may name is checked when it is compiled ([Check]), and
//     all errors come with byte offsets.
//   - It is bounded: [MaxSource], [MaxDepth], [DefaultFuel]. No input panics.
//   - It is pure: no clock, no chance, no order of maps. The same environment
//     gives the same bytes. Where a value is kept ([Check]), an environment may give it
//     a time and draws ([Journaled]).
//   - Secrets are references. A rendering that may carry them is sealed, and
//     only [Unseal] ever holds a value.
//
// A bare expression is a [Program], made by [Compile]. A value of a definition
// is a [Template], built from [ParseText], [Const], [List] and [Map]. Both take
// their roots from an [Env]. The page for users is docs/expressions.md.
package expr
