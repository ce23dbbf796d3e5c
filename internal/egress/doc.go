// Package egress sends the HTTP requests that leave the process: those of steps, calls of models,
// events for sinks, and spans for a collector. No other package of the server opens a connection to
// another service, except the drivers of databases.
//
// A [Sender] sends, over connections that a [Dialer] opens to addresses that a [Guard] allows.
// [SecretHosts] says which secrets a host may receive. The users of a sender decide what a request
// contains and what a response means; the sender decides neither.
//
//	s := egress.New(egress.Config{Guard: guard, UserAgent: "recourse/1.0"})
//	defer s.Close()
//	resp, failure := s.Send(ctx, egress.Request{Method: "POST", URL: u, Header: header, Body: body})
//	if failure != nil {
//		// failure.Sent: the service may have received the request
//	}
//	defer resp.Body.Close()
//
// # Contract
//
// At most one send: [Sender.Send] sends a request at most once, and nothing below it sends again.
// If a kept connection turns out to be dead before it has accepted any byte, the request is sent on
// a new connection. It is still sent once.
//
// Doubt: without a response there is a [Failure]. Its Sent is false only if certainly no byte of
// the request was accepted by a connection. A response whose body ends early was sent, too.
//
// Responses: a response counts even if the request was not written completely, because servers
// refuse long requests early. Informational responses (1xx) are skipped, except 101, after which
// the connection is closed. A connection on which data has arrived before the request is sent is
// not used, because the data is not a response to it; a new connection with TLS is not checked for
// such data. A redirect is a response: it is not followed. The head of a response, with the
// informational ones before it, has at most 64 KiB. Trailers are read, and are in the response once
// its body has ended.
//
// Bodies: the response's body is a stream, which delivers bytes as they arrive. It is not
// decompressed. [ReadBody] reads it to its end, within a limit, and decompresses it. Closing a body
// before its end closes the connection.
//
// Time: the request's context ends every part of an exchange: waiting for a connection, the lookup
// of the name, connecting, the TLS handshake, writing, and reading the body. Lookup and connecting
// together, and the TLS handshake, are also limited by [Config].DialTimeout.
//
// Addresses: the guard checks each address after its name is resolved, just before connecting.
// Proxies in the environment (HTTP_PROXY and the like) are ignored, because a proxy would hide the
// address from the guard, and would see each request. TLS verifies the host of the URL.
//
// Messages: HTTP/1.1 only, because Go's HTTP/2 client resends after errors that do not prove that
// nothing was processed. The sender adds Host, Content-Length and User-Agent, and nothing else. It
// has no cookies.
//
// Errors contain no URL and no header, but may contain text of the remote service: redact them.
//
// Package egresstest tests the contract. The tests of each user of a Sender run it.
package egress
