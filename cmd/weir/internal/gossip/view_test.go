package gossip

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestSilenceBetweenLooks has a member be silent just when members are told for another reason, and
// heard again before the watch looks. Listeners that were told of the silence are told of its end.
func TestSilenceBetweenLooks(t *testing.T) {
	me, other := run(1, "me:1", 1), run(2, "other:1", 1)
	var told []Member
	var log bytes.Buffer
	g := &Gossip{
		me: me.identity, table: newTable(me), peers: map[uint64]*peer{},
		changed: func(m []Member) { told = m }, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	g.table.join(sinceBoot(), other)
	g.publish()
	g.limit.Store(int64(time.Hour)) // a slow machine is no silence
	p := g.peers[other.id]
	g.tell()

	p.mutual.Store(int64(sinceBoot() - 2*time.Hour))
	g.tell()
	if len(told) != 2 || !told[1].Silent {
		t.Fatalf("told %+v of a silent member", told)
	}
	now := sinceBoot()
	p.mutual.Store(int64(now))
	if !g.noticed(now) {
		t.Fatal("the watch does not notice that the member is back")
	}
	g.tell()
	if told[1].Silent || !strings.Contains(log.String(), "a member is back") {
		t.Errorf("told %+v of a member that is back; log:\n%s", told, &log)
	}
	if g.noticed(now) {
		t.Error("the watch notices what members were told of")
	}
}
