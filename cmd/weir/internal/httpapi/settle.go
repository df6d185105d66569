package httpapi

import (
	"fmt"
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
	charged, err := a.limiter.Settle(r.Context(), receipts, used, in.renew)
	if err != nil {
		return a.fail(w, r, err)
	}
	return sendAnswer(w, in.answer(charges, charged, descriptors))
}

// answer is what stays charged, in the form in which used was given: for each descriptor, or for
// the one that is charged the most. A descriptor with several limits has the largest of their
// charges.
func (s *settlement) answer(charges []charge, charged []int64, descriptors int) []byte {
	each, most := make([]int64, descriptors), int64(0)
	for i := range charges {
		charges[i].share(charged[i], s.by, func(descriptor int, n int64) {
			each[descriptor], most = max(each[descriptor], n), max(most, n)
		})
	}
	if s.each {
		return appendJSON(nil, map[string][]int64{"charged": each})
	}
	return appendJSON(nil, map[string]int64{"charged": most})
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
