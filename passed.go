package weir

// passed is events that another limit has let pass.
type passed struct {
	events int64
	// reset is how many microseconds that limit takes to recover, if it is a bucket; 0
	// for others. A slow limit that follows a fast one would else be in debt for days
	// for events that the fast one has long worked off.
	reset int64
	// due is how many microseconds until the last of them goes, if it is a leaky-queue;
	// 0 for others.
	due int64
}

func passedBy(by algorithm, its State, now Instant, events int64) passed {
	p := passed{events: events}
	switch by := by.(type) {
	case *gcra:
		p.reset = by.ahead(its, now).ceil()
	case *leakyQueue:
		p.reset = by.ahead(its, now).ceil()
		p.due = p.reset
	}
	return p
}

// after is how far ahead a time of this pace runs that was ahead by a, after what has
// passed elsewhere: as far as the events say, but not beyond full for longer than the
// other limit takes to recover. It says whether all events are in it.
func (v interval) after(p passed, a, full moment) (next moment, whole bool) {
	if full.us < p.reset {
		full = moment{us: p.reset}
	}
	all := v.add(a, v.span(min(p.events, v.events(full)+1)))
	return capped(all, a, full), !full.less(all)
}
