package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder is a ResponseWriter that remembers the status, and knows when a
// connection that was taken over is closed. There is one only where a charge has to be settled when the
// request is done: most requests are served with the writer of the server.
type recorder struct {
	http.ResponseWriter

	charge *Charge
	// status is what was written, the final one and not a 1xx; 0: none was. Only the
	// goroutine of the handler writes it.
	status int
}

// code is the status of the response.
func (rec *recorder) code() int {
	if rec.status == 0 {
		return http.StatusOK // as net/http sends when nothing was written
	}
	return rec.status
}

// shown is the recorder as a handler sees it: with those of the optional
// interfaces that the writer below has. A handler finds any other one by http.ResponseController.
//
// A handler asks by a type assertion whether it can flush, and does without if it can't. So a recorder
// that had all methods would promise what it can't keep, and one that had none would turn streams into
// answers that come at once. Go has no type with some methods by chance: hence one type for each set of
// interfaces that servers and routers are known to have.
func (rec *recorder) shown() http.ResponseWriter {
	_, flushes := rec.ResponseWriter.(http.Flusher)
	_, hijacks := rec.ResponseWriter.(http.Hijacker)
	_, reads := rec.ResponseWriter.(io.ReaderFrom)
	_, pushes := rec.ResponseWriter.(http.Pusher)
	switch {
	case flushes && hijacks && reads:
		return http1{rec}
	case flushes && hijacks:
		return router{rec}
	case hijacks:
		return hijacker{rec}
	case flushes && pushes:
		return http2{rec}
	case flushes:
		return flusher{rec}
	}
	return rec
}

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader notes the status that is final, and passes all of them on.
func (rec *recorder) WriteHeader(status int) {
	// 1xx but 101 come before the response.
	if rec.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

// wrote notes that a body began, which is 200 where no status was said before.
func (rec *recorder) wrote() {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
}

func (rec *recorder) Write(b []byte) (int, error) {
	rec.wrote()
	return rec.ResponseWriter.Write(b)
}

func (rec *recorder) WriteString(s string) (int, error) {
	rec.wrote()
	return io.WriteString(rec.ResponseWriter, s)
}

// flush flushes by the controller, which finds the method of a writer that is wrapped.
func (rec *recorder) flush() error {
	rec.wrote()
	return http.NewResponseController(rec.ResponseWriter).Flush()
}

// FlushError is for http.ResponseController.
func (rec *recorder) FlushError() error { return rec.flush() }

// hijack hands the connection over. The charge is settled only when the connection is closed: a
// WebSocket goes on long after its handler has returned, and holds its permit for as long.
func (rec *recorder) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(rec.ResponseWriter).Hijack()
	if err != nil {
		return conn, rw, err
	}
	rec.status = http.StatusSwitchingProtocols
	rec.charge.mu.Lock()
	rec.charge.open = true
	rec.charge.mu.Unlock()
	return &hijacked{Conn: conn, charge: rec.charge}, rw, nil
}

// hijacked is a connection that a handler took over.
type hijacked struct {
	net.Conn

	charge *Charge
}

// Close settles the charge, if the handler has returned by then.
func (h *hijacked) Close() error {
	err := h.Conn.Close()
	h.charge.finish(func() { h.charge.open = false })
	return err
}

// The recorder of a writer that can more: http1 and http2 are those of net/http,
// router is what routers put around them.
type (
	flusher  struct{ *recorder }
	hijacker struct{ *recorder }
	router   struct{ *recorder }
	http1    struct{ *recorder }
	http2    struct{ *recorder }
)

// Flush tells nobody of errors, as that of net/http.
func (f flusher) Flush() { _ = f.flush() }
func (f router) Flush()  { _ = f.flush() }
func (f http1) Flush()   { _ = f.flush() }
func (f http2) Flush()   { _ = f.flush() }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.hijack() }
func (h router) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return h.hijack() }
func (h http1) Hijack() (net.Conn, *bufio.ReadWriter, error)    { return h.hijack() }

func (f http1) ReadFrom(src io.Reader) (int64, error) {
	f.wrote()
	return f.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (f http2) Push(target string, o *http.PushOptions) error {
	return f.ResponseWriter.(http.Pusher).Push(target, o)
}
