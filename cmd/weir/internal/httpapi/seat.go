package httpapi

import (
	"context"
	"net"
	"net/http"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// ReasonSeat is why a request is refused when too much is asked: there are more
// connections than can be served in time.
const ReasonSeat = "connections"

type seatKey struct{}

// ConnContext is that of the http.Server of an API: each connection needs a seat
// for what it asks.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, seatKey{}, new(overload.Seat))
}

// admit is whether a request may be answered now.
func (a *API) admit(r *http.Request) bool {
	seat, ok := r.Context().Value(seatKey{}).(*overload.Seat)
	if !ok || a.options.Gate.Take(seat) {
		return true
	}
	a.options.Refused(ReasonSeat)
	return false
}

// busy refuses a request and its connection: the next request on it would cost
// as much again.
func busy(w http.ResponseWriter) int {
	h := w.Header()
	h["Connection"] = []string{"close"}
	h["Retry-After"] = []string{"1"}
	return send(w, &problem{
		Status: http.StatusServiceUnavailable,
		Detail: "more is asked than can be decided in time; ask again later, or another daemon",
	})
}
