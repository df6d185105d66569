package rules

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
)

// ErrForgotten is returned by Limiter.Recall when no denial is kept by an id.
var ErrForgotten = errors.New("no denial is kept by this id")

// Remember makes l keep its denials in d from now on, for Recall. Call it before
// others use l. It fails with ErrNoLook when the store gives no evidence: a denial without it could be
// explained by the states of now only, which may be others by the time that somebody asks.
func (l *Limiter) Remember(d *Denials) error {
	if !l.store.Traits().Evidence {
		return fmt.Errorf("remember denials: %w", ErrNoLook)
	}
	if set := l.set.Load(); set != nil {
		d.use(set, time.Now())
	}
	l.denials = d
	return nil
}

// Recall explains the denial whose Answer had this id, as Explain would have
// just before. It fails with a *RequestError when id is none, with ErrNoLook
// when denials are not kept, and with ErrForgotten.
//
// It decides the request once more, by the rules that were active then and on the states that the
// store gave as evidence. So what it says is what was decided, also if the rules were changed since
// and the client has come back a hundred times.
func (l *Limiter) Recall(ctx context.Context, id string) (*Explanation, error) {
	number, ok := parseID(id)
	if !ok {
		return nil, &RequestError{"id", "is no ID of a denial; it has 16 hexadecimal digits, as the answer gave it"}
	}
	if l.denials == nil {
		return nil, fmt.Errorf("recall %s: %w", id, ErrNoLook)
	}
	h, b, ok := l.denials.find(number)
	if !ok {
		return nil, fmt.Errorf("%w: another process issued it, the request was allowed, it is more than %v minutes old, or later denials replaced it", ErrForgotten, DenialLife.Minutes())
	}
	now := l.now(ctx)
	set, err := l.denials.recalled(&h, now)
	if err != nil {
		return nil, err
	}
	// The states stand in the order of the asks. So the request is matched once more, by the same
	// rules, to know which count each belongs to.
	request, states := b.read()
	x := &explainer{limiter: l, set: set, request: request, store: l.store.Traits(), recalled: true, excepted: b.excepted}
	x.before = newCopies(h.at, x.take(false).asks, states)
	e, err := x.explain(ctx)
	if err != nil {
		return nil, fmt.Errorf("recall %s: %w", id, err)
	}
	if e.Answer.Allowed { // the states alone don't deny: the store did for another reason
		return nil, fmt.Errorf("%w: it was denied at %s together with other keys that had no room in the store; how much each had used is not known",
			ErrForgotten, h.at.Time().Format(time.RFC3339))
	}
	e.ID, e.Answer.id = id, number
	return e, nil
}

// now is the store's time; this process's where the store is away or does not tell.
func (l *Limiter) now(ctx context.Context) weir.Instant {
	if looker, ok := l.store.(weir.Looker); ok {
		if now, _, err := looker.Look(ctx, nil); err == nil {
			return now
		}
	}
	return weir.InstantOf(time.Now())
}

// recalled is the rules by which h was denied, if all of it is still there.
func (d *Denials) recalled(h *head, now weir.Instant) (*Set, error) {
	when := h.at.Time().Format(time.RFC3339)
	switch {
	case h.over(now):
		return nil, fmt.Errorf("%w: it was denied at %s, and denials are kept for %v minutes", ErrForgotten, when, DenialLife.Minutes())
	case h.kept == noEvidence:
		return nil, fmt.Errorf("%w: it was denied at %s by a fallback, because the store was away, or by several of its servers; how much each count had used is not known", ErrForgotten, when)
	case h.kept == tooLarge:
		return nil, fmt.Errorf("%w: it was denied at %s, but its request and its counts are more than the %d bytes that are kept of one", ErrForgotten, when, MaxDenial)
	}
	if v := d.versions[h.version%MaxVersions].Load(); v != nil && v.number == h.version {
		return v.set, nil
	}
	return nil, fmt.Errorf("%w: it was denied at %s, by rules that were replaced %d times since", ErrForgotten, when, d.replaced(h.version))
}

// replaced is how many times rules were replaced since a version.
func (d *Denials) replaced(version uint32) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest - version
}

// formatID is 16 hexadecimal digits.
func formatID(n uint64) string {
	const hex = "0123456789abcdef"
	var id [16]byte
	for i := len(id) - 1; i >= 0; i, n = i-1, n>>4 {
		id[i] = hex[n&15]
	}
	return string(id[:])
}

// parseID is the number that formatID has written.
func parseID(id string) (uint64, bool) {
	if len(id) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(id, 16, 64)
	return n, err == nil
}
