package h2

import "time"

// A client may waste so much work that brings no call to its end. One bucket pays for all kinds of it, so
// that an attack which nobody has thought of is bounded, too.
const (
	// wasteMost is what a connection may waste at once, and in a second.
	wasteMost = 1000
	// wastePerCall is how much more it may waste for each call that was answered. Clients send up to three
	// frames for each that are none of it: two windows and a ping.
	wastePerCall = 4
	// wasteSettings is what settings cost: they may change the windows of all streams.
	wasteSettings = 4
	// wasteRest is what a request costs that Config.Rest answers, and that ends before it is answered: as much work as
	// some ten calls.
	wasteRest = 10
	// freeHead is how large a header block is that costs nothing, and wasteBlock how many bytes more cost one.
	freeHead   = 4 << 10
	wasteBlock = 256
)

// waste is how much more a connection may waste.
type waste struct {
	left int
	at   time.Time // when it was last filled
}

// spend takes so much of it, and says whether it was too much.
func (w *waste) spend(cost int, now time.Time) (tooMuch bool) {
	if passed := now.Sub(w.at); passed >= time.Second/wasteMost {
		w.left = min(w.left+int(min(passed, time.Second)*wasteMost/time.Second), wasteMost)
		w.at = now
	}
	w.left -= cost
	return w.left < 0
}

// answered is for a call that was.
func (w *waste) answered() { w.left = min(w.left+wastePerCall, wasteMost) }
