// Package evidence makes changes of journals evident that their hash chain does not show. The chain
// has no key, so a person who can write to the database can change a record and hash all later ones
// again. An anchor is a signed statement about the ends of journals at a moment, kept where that
// person cannot write.
//
// Each process has a [Chain] of anchors: they are numbered, and each has the hash of the one
// before. A [Signer] collects the ends of the journals that its node appends to, signs them at
// intervals, and passes the anchors to a file and to sinks. A [Set] is read from such a copy: it
// checks the anchors themselves, and compares journals with them.
//
// Chain and Set are pure. docs/format.md describes anchors for those who check them with other
// programs.
package evidence
