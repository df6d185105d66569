package overload

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// DefaultBudget is how many bytes the unfinished requests of a listener may hold together,
// as their clients sent them. The process holds about twice as many for them.
const DefaultBudget = 64 << 20

// Unfinished is what a request that has begun costs beside the bytes that came: a
// goroutine, its head, what a listener keeps of it.
const Unfinished = 16 << 10

// Budget bounds what the unfinished requests of a listener hold together. When it is full,
// the slowest go, until an eighth is free: to find them means to look at all. Its
// methods may be called at once by many. The zero Budget bounds nothing.
type Budget struct {
	// Most is how many bytes they may hold. It is set before use. 0: any number.
	Most int64
	// Cut is called for each request that is cut off. Nil: nobody is told.
	Cut func()

	mu   sync.Mutex
	held int64
	open map[*Holding]struct{}
}

// Holding is what one unfinished request holds. It is made by Begin.
type Holding struct {
	budget *Budget
	begun  time.Time
	cut    func()
	bytes  int64 // guarded by the budget's lock, as is
	gone   bool  // it was cut off
}

// Begin counts a request that has begun until End. cut ends it; it is called with the
// budget locked, so it must not wait, and not after End.
func (b *Budget) Begin(begun time.Time, cut func()) *Holding {
	h := &Holding{budget: b, begun: begun, cut: cut}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[*Holding]struct{}{}
	}
	b.open[h] = struct{}{}
	return h
}

// Hold says how many bytes the request holds by now.
func (h *Holding) Hold(now time.Time, bytes int64) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.open[h]; !ok {
		return
	}
	b.held += bytes - h.bytes
	h.bytes = bytes
	if b.Most > 0 && b.held > b.Most {
		b.relieve(now)
	}
}

// Gone is whether the request was cut off.
func (h *Holding) Gone() bool {
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	return h.gone
}

// End says that the request is answered, or over. It may be said again.
func (h *Holding) End() {
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	h.budget.drop(h)
}

// Held is how many bytes all hold.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// drop forgets a request. mu is held.
func (b *Budget) drop(h *Holding) {
	if _, ok := b.open[h]; ok {
		delete(b.open, h)
		b.held -= h.bytes
	}
}

// relieve cuts off the slowest. mu is held.
func (b *Budget) relieve(now time.Time) {
	all := slices.Collect(maps.Keys(b.open))
	slices.SortFunc(all, func(x, y *Holding) int { return cmp.Compare(y.weight(now), x.weight(now)) })
	for _, h := range all {
		if b.held <= b.Most-b.Most/8 {
			return
		}
		b.drop(h)
		h.gone = true
		h.cut()
		if b.Cut != nil {
			b.Cut()
		}
	}
}

// weight is how slow a request is: what it holds, for how long. By the time alone,
// those would go first which hold little, and nothing would be free.
func (h *Holding) weight(now time.Time) float64 {
	return float64(h.bytes) * max(now.Sub(h.begun), time.Microsecond).Seconds()
}
