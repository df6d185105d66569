package offenders

import "time"

// lateSeconds is how long a step is in which a client's refusals are counted apart: Client.Lately is of two of them.
const lateSeconds = 10

// Lately is the longest time that Client.Lately is of; the shortest is half of it.
const Lately = 2 * lateSeconds * time.Second

// Limited is a rule that has denied clients in the last minutes.
type Limited struct {
	ID

	// Least is the most denials that any client can have had who is not among Clients.
	Least int64
	// Missed is denials whose clients were not noted, since the rule began to deny.
	Missed  int64
	Clients []Client
}

// Client is a client that a rule has denied in the last minutes: N times at most, and Error times fewer at least.
type Client struct {
	Count

	// Lately is how many of its requests did not pass in the last 10 to 20 seconds, and at most Error more.
	Lately int64
	// Since and Last are when the first and the last one did not pass, while the client was told apart. Zero: all passed, and the rule denies
	// only beside others.
	Since, Last time.Time
	// Until is when the last one may come again; zero: nobody knows.
	Until time.Time
}

// Limited is the enforced rules that have denied clients in the last minutes, with all clients that are told apart, in no order.
func (b *Book) Limited() []Limited {
	b.mu.Lock()
	watched := map[ID]*window{}
	for id, t := range b.traffic {
		if w := t.clients.Load(); w != nil && !id.Shadow {
			watched[id] = w
		}
	}
	b.mu.Unlock()
	all := make([]Limited, 0, len(watched))
	for id, w := range watched {
		one := Limited{ID: id, Missed: w.missed.Load()}
		one.Clients, one.Least = w.limited(b.second.Load())
		all = append(all, one)
	}
	return all
}

// Forgive forgets when a client of a rule did not pass, as its count was reset.
func (b *Book) Forgive(id ID, name []byte) {
	b.mu.Lock()
	t := b.traffic[id]
	b.mu.Unlock()
	if t == nil {
		return
	}
	if w := t.clients.Load(); w != nil {
		w.forgive(Shorten(name))
	}
}

func (w *window) forgive(name []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := markOf(w.now, w.marks, name); m != nil {
		*m = mark{}
	}
	if m := markOf(w.before, w.marksBefore, name); m != nil {
		*m = mark{}
	}
}

// limited is all clients that the window tells apart, and how often any other was denied at most.
func (w *window) limited(now int64) (clients []Client, least int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.before
	if before == nil {
		before = NewSketch(Names)
	}
	both := w.now.union(before)
	clients = make([]Client, len(both.names))
	for i, name := range both.names {
		m := mark{}
		if old := markOf(w.before, w.marksBefore, name); old != nil {
			m = *old
		}
		if young := markOf(w.now, w.marks, name); young != nil {
			m = m.then(*young)
		}
		clients[i] = Client{
			Count: Count{string(name), both.counts[i], both.errors[i]}, Lately: m.countAt(now),
			Since: second(m.since), Last: second(m.last), Until: second(m.until),
		}
	}
	return clients, w.now.Least() + before.Least()
}

func second(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// markOf is the mark of a name of a sketch; nil: there is none.
func markOf(s *Sketch, marks []mark, name []byte) *mark {
	if s == nil {
		return nil
	}
	if i, ok := s.find(s.hash(name), name); ok {
		return &marks[i]
	}
	return nil
}

// mark is when requests of a client did not pass, in seconds since 1970. The zero value is of a client whose requests passed.
type mark struct {
	since, last, until int64
	step               int64 // that lately counts, in steps of lateSeconds since 1970
	lately, earlier    int64 // requests that did not pass in step, and in the step before
}

func (m *mark) refuse(at, again int64) {
	if m.since == 0 {
		m.since = at
	}
	m.last, m.until = at, 0
	if again > 0 {
		m.until = at + again
	}
	m.turn(at / lateSeconds)
	m.lately++
}

// turn goes on to a step. The clock may have stepped back: then it stays.
func (m *mark) turn(step int64) {
	switch {
	case step == m.step+1:
		m.earlier, m.lately, m.step = m.lately, 0, step
	case step > m.step:
		m.earlier, m.lately, m.step = 0, 0, step
	}
}

// countAt is how many requests did not pass in the step of a time, and in the one before.
func (m *mark) countAt(at int64) int64 {
	now := *m
	now.turn(at / lateSeconds)
	return now.lately + now.earlier
}

// then is the mark of both times, of which the younger comes second.
func (m mark) then(young mark) mark {
	if young.last == 0 {
		return m
	}
	if m.last == 0 {
		return young
	}
	m.turn(young.step)
	young.lately += m.lately
	young.earlier += m.earlier
	young.since = m.since
	return young
}
