// Package h1 reads HTTP/1.1 for few small requests that clients send many of, and answers them on the goroutine that
// reads their connection, by the handler of an http.Server. It takes a strict subset, in which a request has one
// meaning only. At the first doubt net/http gets the connection, with all bytes that are not answered, and keeps it.
//
//   - request.go says which bytes are a request of the subset.
//   - conn.go answers the requests of a connection; answer.go writes what a handler says.
//   - handover.go gives connections to net/http; server.go begins and ends all.
//
// It knows nothing of limits. docs/http-listener.md tells what it refuses, and which suites check it.
package h1
