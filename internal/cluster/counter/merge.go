package counter

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// The bounds of replicas.
const (
	// MaxPeers is how many nodes a replica knows by name. Nodes that are no members, and of which
	// nothing is in use, make room; else it drops news of more nodes.
	MaxPeers = 2 * member.MaxMembers
	// MaxLines is how many counts of processes a replica keeps of a key. Counts of which nothing is
	// in use make room; else it drops a new count.
	MaxLines = 2 * member.MaxMembers
	// MaxForms is how many limits a replica remembers in the forms that it needs.
	// Then all are worked out anew.
	MaxForms = 4096
)

// hear takes in what a message says of one process and one key.
func (p *Replica) hear(now weir.Instant, r *tally, of *told) {
	id := p.id(now, of.node)
	if id < 0 {
		p.stats.Dropped++
		return
	}
	if id == 0 && of.incarnation == p.settings.Incarnation {
		if at, ok := r.find(id, of.incarnation); ok && r.echo != nil {
			r.echo.hears(of.slot, of.count, &r.lines[at])
		}
		return // of this process, which knows best
	}
	at, known := r.find(id, of.incarnation)
	if !known {
		if now-of.changed >= r.form.memory {
			return // nothing of it is in use
		}
		if len(r.lines) >= MaxLines && !r.prune(now) {
			p.stats.Dropped++
			return
		}
		at, _ = r.find(id, of.incarnation)
		r.lines = slices.Insert(r.lines, at, line{node: id, incarnation: of.incarnation, slot: of.slot, count: of.before, opened: of.opened})
	}
	l := &r.lines[at]
	was := *l
	news := l.merge(of)
	l.heard = now
	if news == 0 {
		return
	}
	p.stats.Heard++
	p.charge(now, r, &was, l, news)
	if p.relays(r, of.reported) {
		p.tell(now, r, l, relays)
	}
}

// relays is in how many turns a replica that gossips, or is a hub, passes on what it has heard.
const relays = 2

// merge takes the later of two counts of one process: of the later slot, else the
// larger. So messages may be lost, doubled and in any order. It returns the events
// that are news.
func (l *line) merge(of *told) (news int64) {
	switch {
	case of.slot < l.slot || of.slot == l.slot && of.count <= l.count:
		return 0
	case of.slot > l.slot:
		l.slot, l.count, l.opened = of.slot, 0, of.opened
	}
	news = of.count - l.count
	l.count = of.count
	l.changed = max(l.changed, of.changed)
	return news
}

// charge charges news of another node. Events that passed while this one could not hear it are not
// all charged at once: the other node had its part of the limit, and only the events of the last
// moments are still in use.
func (p *Replica) charge(now weir.Instant, r *tally, was, l *line, news int64) {
	if p.settings.Sharing == bounds.Log {
		r.charge(l.changed, news, weight{1, 1}) // the log tells when
		return
	}
	if p.cold(now, r) {
		r.owed = min(r.owed+news, weir.MaxCost)
		return
	}
	_, w := p.weights(now, r, r.policy, r.nodes)
	q := &p.peers[l.node]
	switch heard := was.count > 0 && was.heard >= q.since; {
	case q.silent, !heard && l.opened < q.since && !q.news:
		r.charge(now, news-p.forgiven(now, r, news), w)
	case !heard && l.opened < max(q.since, r.born-bounds.Micros(Sweep)):
		r.charge(now, min(news, r.free(now)), weight{1, 1})
	default:
		r.charge(now, news, w)
	}
}

// forgiven is how many of the news of nodes that were not heard are not charged: all
// that they were entitled to since, but for what can still be in use of it. With
// weir.PartitionOpen that was any number.
func (p *Replica) forgiven(now weir.Instant, r *tally, news int64) int64 {
	p.view.to(now)
	spec := r.form.limit.Spec()
	period := spec.Period.Microseconds()
	gap := p.view.gap - max(r.mark, p.view.base)
	entitled := bounds.Part(spec.Count, gap/gapUnit, period)
	over := max(news-bounds.Part(r.free(now), p.view.gone, p.view.members), 0)
	if r.policy == weir.PartitionOpen {
		return over
	}
	forgiven := min(entitled, over)
	r.mark = max(r.mark, p.view.base) + (bounds.Part(forgiven, period, max(spec.Count, 1))+1)*gapUnit
	return forgiven
}

// prune forgets the counts of processes of which nothing is in use.
func (r *tally) prune(now weir.Instant) bool {
	before := len(r.lines)
	r.lines = slices.DeleteFunc(r.lines, func(l line) bool {
		return l.node != 0 && l.left == 0 && now-l.changed >= r.form.memory
	})
	return len(r.lines) < before
}
