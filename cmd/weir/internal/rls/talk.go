package rls

import "time"

const (
	// talkMost is how many frames a connection may send at once, and in a second, that
	// ask nothing: those that reset a call which has just begun, settings, pings, windows,
	// and those with nothing in them.
	talkMost = 1000
	// talkPerCall is how many more it may send for each call that was answered. Clients
	// send up to three: two windows and a ping.
	talkPerCall = 4
	// young is how old a call is that nobody who meant it has given up yet. Resets of
	// older ones are bounded by how many a connection may have.
	young = 5 * time.Millisecond
)

// talk is how many more frames a connection may send that ask nothing.
type talk struct {
	left int
	at   time.Time // when it was last filled
}

// said is whether one more is too many.
func (t *talk) said(now time.Time) (tooMany bool) {
	if more := min(now.Sub(t.at), time.Second) * talkMost / time.Second; more > 0 {
		t.left = min(t.left+int(more), talkMost)
		t.at = now
	}
	t.left--
	return t.left < 0
}

// answered is for a call that was.
func (t *talk) answered() { t.left = min(t.left+talkPerCall, talkMost) }

// asksNothing is whether a frame that the client has sent is one of them.
func (c *calls) asksNothing(f *frames, now time.Time) bool {
	switch f.kind() {
	case frameHeaders:
		return false
	case frameData:
		return f.left == 0 && !f.ends()
	case frameReset:
		at, known := c.open[f.stream()]
		return !known || now.Sub(at.begun) < young
	}
	return true
}
