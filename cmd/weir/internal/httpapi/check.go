package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/weir-limit/weir/rules"
)

// maxBody is how large the body of a request may be.
const maxBody = 1 << 20

// read reads the body of a request. Its size is bounded before anything is
// read where the client tells it.
func (s *scratch) read(w http.ResponseWriter, r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110 §12.5.3
		return &problem{http.StatusUnsupportedMediaType, "the body has Content-Encoding " + quote(coding) + ", and nothing is unpacked here; send it as it is"}
	}
	if r.ContentLength > maxBody {
		return tooLarge(w)
	}
	for {
		if len(s.body) == cap(s.body) {
			s.body = append(s.body, 0)[:len(s.body)]
		}
		n, err := r.Body.Read(s.body[len(s.body):min(cap(s.body), maxBody+1)])
		s.body = s.body[:len(s.body)+n]
		switch {
		case len(s.body) > maxBody:
			return tooLarge(w)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &problem{http.StatusBadRequest, "the body ended early or came too slowly; send it again"}
		}
	}
}

// tooLarge also closes the connection: the rest of the body is not worth reading.
func tooLarge(w http.ResponseWriter) error {
	w.Header().Set("Connection", "close")
	return &problem{http.StatusRequestEntityTooLarge, "the body is over 1 MiB; send fewer descriptors at a time"}
}

// check is POST /v1/check.
func (a *API) check(w http.ResponseWriter, r *http.Request) int {
	s := a.acquire()
	defer a.release(s)
	if err := s.read(w, r); err != nil {
		return a.fail(w, r, err)
	}
	if err := readCheck(string(s.body), &s.request); err != nil {
		return a.fail(w, r, err)
	}
	owner, err := a.elsewhere(r, &s.request)
	if err != nil {
		return a.fail(w, r, err)
	}
	if owner != "" {
		return redirect(w, r, owner)
	}
	answer, err := a.limiter.Check(r.Context(), &s.request)
	if err != nil {
		return a.fail(w, r, err)
	}
	var receipt string
	if s.request.Receipt {
		if receipt, err = a.receiptOf(r.Context(), answer, len(s.request.Descriptors)); err != nil {
			return a.fail(w, r, err)
		}
	}
	s.out = AppendAnswer(s.out[:0], answer, receipt)
	describe(w.Header(), answer)
	return sendAs(w, statusOf(answer), s.out)
}

// statusOf is the status of an answer of the rules.
func statusOf(answer *rules.Answer) int {
	switch {
	case answer.Allowed:
		return http.StatusOK
	case answer.Away():
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// receiptOf is the receipt of an answer for the wire. When it can't be one,
// what was charged is given back.
func (a *API) receiptOf(ctx context.Context, answer *rules.Answer, descriptors int) (string, error) {
	receipt, err := a.receipts.seal(answer, descriptors)
	if err != nil {
		back := answer.Receipts()
		// The client may be gone, but the charges must go back.
		_, failed := a.limiter.Settle(context.WithoutCancel(ctx), back, make([]int64, len(back)), false)
		err = errors.Join(err, failed)
	}
	return receipt, err
}
