// Package httptext has the pure parts of HTTP messages: which header names a request may set, the
// encoding of text in URLs and JSON, the JSON form of a body, and the redaction of secrets.
//
// It opens no connection: package egress does.
package httptext
