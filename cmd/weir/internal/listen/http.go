package listen

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// The bounds of an HTTP server. A client that is slower is cut off.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second // less than writeTimeout, so that the slow get an answer
	writeTimeout      = 15 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10 // net/http reads 4 KiB more of HTTP/1.1
	// maxStreams is how many calls a connection of HTTP/2 has at a time. More wait
	// at the client.
	maxStreams = 250
)

// ServerOptions is what a server speaks, and where it tells of faults.
type ServerOptions struct {
	Protocols *http.Protocols
	// Log hears of the faults of the server. HandshakeFailed and ProtocolBroken count
	// those of clients, of TLS and of HTTP/2.
	Log                             slog.Handler
	HandshakeFailed, ProtocolBroken func()
}

// Server makes an HTTP server with bounds, for connections of a Listener.
func Server(h http.Handler, o ServerOptions) *http.Server {
	return &http.Server{
		Protocols:         o.Protocols,
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       WithSlot,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          slog.NewLogLogger(&faults{o.Log, o.HandshakeFailed, o.ProtocolBroken}, slog.LevelWarn),
	}
}

// Stop lets the calls of a server end, and cuts them off when ctx ends.
func Stop(ctx context.Context, s *http.Server) error {
	err := s.Shutdown(ctx)
	if err == nil || errors.Is(err, net.ErrClosed) { // its listener was closed before it
		return nil
	}
	return errors.Join(err, s.Close())
}

// faults is the log of a server. It counts a client's fault instead of logging it: any client could
// fill the log with faults, and they have the client's address and words.
type faults struct {
	slog.Handler

	handshake, protocol func()
}

// Enabled is always true: what is counted is counted, with or without a log.
func (f *faults) Enabled(context.Context, slog.Level) bool { return true }

// Handle passes on a record that is not a client's fault. It knows a client's fault by its words:
// net/http tells of it in no other way.
func (f *faults) Handle(ctx context.Context, r slog.Record) error {
	switch is := func(prefix string) bool { return strings.HasPrefix(r.Message, prefix) }; {
	case is("http: TLS handshake error"):
		f.handshake()
	case is("http2: ") && !is("http2: panic"), is("timeout waiting for "):
		f.protocol()
	case f.Handler.Enabled(ctx, r.Level):
		return f.Handler.Handle(ctx, r)
	}
	return nil
}
