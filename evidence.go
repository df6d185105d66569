package weir

// Evidence is what a take stood on, for explanations. A caller that wants it sets
// Ask.Evidence of each ask to one of its own; a store with Traits.Evidence fills them
// in.
//
// It is optional twice: a store need not fill it in, and a caller need not ask. A take
// without evidence copies no state, so the usual take pays nothing for it.
type Evidence struct {
	// Always asks for it of a take that passes, too. Else only one that does not pass,
	// or that has a peek, is told of.
	Always bool
	// Told says that the store has filled in the rest. It fills in that of all asks of a
	// take, or of none: where it decides them one after the other, no moment is that of
	// all.
	Told bool
	// At is when the take was decided, on the store's clock.
	At Instant
	// State is the count just before, as the limit of the ask is given it by
	// Limit.Decide: empty when it was never used. It is the caller's.
	State State
}

// WantsEvidence says whether the Evidence of asks is to be filled in, given whether
// their take passes. Stores call it after Resolve and before Limit.Commit.
func WantsEvidence(asks []Ask, pass bool) bool {
	for i := range asks {
		if e := asks[i].Evidence; e != nil && (!pass || e.Always || asks[i].Peek) {
			return true
		}
	}
	return false
}

// Tell fills e in, with a copy of s. It does nothing when e is nil.
func (e *Evidence) Tell(at Instant, s State) {
	if e != nil {
		e.Told, e.At, e.State = true, at, append(e.State[:0], s...)
	}
}

// Clear takes back what was told, and keeps the memory. It does nothing when e is nil.
func (e *Evidence) Clear() {
	if e != nil {
		e.Told, e.At, e.State = false, 0, e.State[:0]
	}
}
