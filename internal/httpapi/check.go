package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// maxBody is how large the body of a request may be.
const maxBody = 1 << 20

// read reads the body of a request. Its size is bounded before anything is
// read where the client tells it.
func (s *scratch) read(w http.ResponseWriter, r *http.Request) error {
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
	s.out = append(AppendAnswer(s.out[:0], answer, receipt), '\n')
	h := w.Header()
	h["Content-Type"] = answerType
	a.describe(r.Context(), h, &s.request, answer)
	status := http.StatusOK
	if !answer.Allowed {
		status = http.StatusTooManyRequests
	}
	w.WriteHeader(status)
	_, _ = w.Write(s.out) // the client may be gone
	return status
}

// describe sets the fields that every answer of the rules has.
func (a *API) describe(ctx context.Context, h http.Header, q *rules.Request, answer *rules.Answer) {
	h["Cache-Control"] = noStore
	if retry, ok := answer.RetryAfter(); ok {
		h["Retry-After"] = []string{strconv.FormatInt(wholeSeconds(retry), 10)}
	}
	p := peeks{limiter: a.limiter, request: q, answer: answer, descriptor: -1}
	setFields(h, standings(answer, func(d *rules.Decision) (time.Duration, bool) { return p.next(ctx, d) }))
}

// receiptOf is the receipt of an answer for the wire. When it can't be one,
// what was charged is given back.
func (a *API) receiptOf(ctx context.Context, answer *rules.Answer, descriptors int) (string, error) {
	receipt, err := a.receipts.seal(answer, descriptors)
	if err != nil {
		back := answer.Receipts()
		// The client may be gone, but the charges must go back.
		err = errors.Join(err, a.limiter.Settle(context.WithoutCancel(ctx), back, make([]int64, len(back)), false))
	}
	return receipt, err
}

// peeks tells how long until one event passes a limit that has none left. A
// decision says so only of its own cost; where that is not 1, a peek tells, one
// for all limits of a descriptor.
type peeks struct {
	limiter    Limiter
	request    *rules.Request
	answer     *rules.Answer
	descriptor int // of the last peek
	decisions  []rules.Decision
}

func (p *peeks) next(ctx context.Context, d *rules.Decision) (time.Duration, bool) {
	if d.Rule.Limit.Spec().Algorithm == weir.Concurrent {
		return 0, false // when a permit comes back
	}
	if d.Outcome == weir.Denied && (d.Cost == 1 || d.Rule.After) && alone(p.answer, d.Rule) {
		return d.RetryAfter, true
	}
	if d.Descriptor != p.descriptor {
		p.descriptor, p.decisions = d.Descriptor, nil
		one := p.request.Descriptors[d.Descriptor]
		one.Cost = 1
		answer, err := p.limiter.Check(ctx, &rules.Request{Domain: p.request.Domain, Descriptors: []rules.Descriptor{one}, Peek: true})
		if err != nil {
			return 0, false // a hint less
		}
		p.decisions = answer.Decisions
	}
	for i := range p.decisions {
		if seen := &p.decisions[i]; seen.Rule == d.Rule {
			return seen.RetryAfter, seen.Outcome != weir.Impossible
		}
	}
	return 0, false
}

// alone is whether only one decision of the answer is of the rule, so that its
// cost was not added to another's.
func alone(a *rules.Answer, rule *rules.Rule) bool {
	n := 0
	for i := range a.Decisions {
		if a.Decisions[i].Rule == rule {
			n++
		}
	}
	return n == 1
}
