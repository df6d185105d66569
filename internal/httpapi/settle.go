package httpapi

import (
	"fmt"
	"io"
	"net/http"

	"github.com/weir-limit/weir"
)

// settle is POST /v1/settle.
func (a *API) settle(w http.ResponseWriter, r *http.Request) int {
	s := a.acquire()
	defer a.release(s)
	if err := s.read(w, r); err != nil {
		return a.fail(w, r, err)
	}
	in, err := readSettle(string(s.body))
	if err != nil {
		return a.fail(w, r, err)
	}
	charges, descriptors, err := a.receipts.open(in.receipt)
	if err != nil {
		return a.fail(w, r, err)
	}
	if in.each && len(in.used) != descriptors {
		return a.fail(w, r, &problem{
			http.StatusBadRequest,
			fmt.Sprintf("used: there are %d; write one number, or %d, one for each descriptor of the check", len(in.used), descriptors),
		})
	}
	receipts := make([]*weir.Receipt, len(charges))
	used := make([]int64, len(charges))
	for i := range charges {
		receipts[i] = charges[i].receipt
		used[i] = charges[i].used(in.by)
	}
	if err := a.limiter.Settle(r.Context(), receipts, used, in.renew); err != nil {
		return a.fail(w, r, err)
	}
	h := w.Header()
	h["Content-Type"] = answerType
	h["Cache-Control"] = noStore
	_, _ = io.WriteString(w, "{}\n") // the client may be gone
	return http.StatusOK
}

// by is what the descriptor really cost.
func (s *settlement) by(descriptor int) int64 {
	switch {
	case s.each:
		return s.used[descriptor]
	case len(s.used) == 1:
		return s.used[0]
	}
	return 0 // renew, without used
}
