package httplimit

import (
	"io"
	"net/http"
	"time"
)

const (
	// maxDrain is how much of an answer is read, so that its connection can be
	// used again, before the request is sent again, and maxDrainTime how long that
	// may take. Then the connection is closed.
	maxDrain     = 64 << 10
	maxDrainTime = time.Second
)

// replay is req to be sent once more, or nil when that is not possible, or could
// do what it does twice. 429 says that the request was refused, whatever it was.
// 503 may come from a proxy that lost the server halfway: then only a request that
// is idempotent, or has an Idempotency-Key, is sent again.
func replay(req *http.Request, status int) *http.Request {
	if status == http.StatusServiceUnavailable && !idempotent(req) {
		return nil
	}
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	again := req.Clone(req.Context())
	again.Body = body
	return again
}

// idempotent goes by RFC 9110, section 9.2.2, and by the fields that net/http goes
// by when a connection breaks.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, other := req.Header["X-Idempotency-Key"]
	return key || other
}

// closeBody closes what a RoundTripper must close, whether it sends it or not.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nothing of it was sent
	}
}

// drain reads the rest of an answer that nobody wants, and closes it. An answer of which all is read
// gives its connection back, so that the next try need not open one; one that is long or slow costs more
// than that is worth.
func drain(body io.ReadCloser) {
	late := time.AfterFunc(maxDrainTime, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrain) // what can't be read is not missed
	_ = body.Close()
}
