// Package listen opens the listeners of the daemon, bounds what clients may hold of them,
// and drains them.
//
// A listener knows nothing of requests, but by two calls of its server: HasAsked says that
// a connection has asked something, KeepSeats that it may keep its place.
//
//   - address.go opens an address or a socket of this machine.
//   - connections.go bounds the connections of a listener. When there are too many, those
//     that have been silent the longest lose their place.
//   - serve.go accepts connections, and conns.go serves and ends those of a server.
//   - http.go makes servers of HTTP with bounds of time and memory; http2.go says which
//     protocols are safe to speak.
//   - files_*.go, gone_*.go and pending_*.go ask the operating system.
package listen
