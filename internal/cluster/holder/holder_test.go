package holder

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// TestDeniesAlone: however long its owner says that a key has nothing, a node asks again after table.MaxDeny.
func TestDeniesAlone(t *testing.T) {
	const now = weir.Instant(1_000_000)
	asks := uint64(0)
	members := []member.Member{{Name: "a", Incarnation: 1}, {Name: "b", Incarnation: 1}}
	key := weir.StateKey{Rule: "api", Key: "k"}
	for rank.First(key, []string{"a", "b"}) != "b" {
		key.Key += "k"
	}
	r := &protocol.Request{State: key, Limit: weir.MustParseLimit("10/h"), Cost: 1}
	h := New(key, 1, &asks).Of
	h.Become(r.Limit)
	h.Follow(now, member.Together("a", members), "a", nil)
	var fx protocol.Effects
	if h.Take(now, r, &fx); len(fx.Messages) != 1 || fx.Messages[0].Peer != "b" || fx.Messages[0].Kind != protocol.Ask {
		t.Fatalf("%+v; want b asked", fx.Messages)
	}
	h.Receive(now, &protocol.Message{Kind: protocol.Grant, State: key, ID: fx.Messages[0].ID, Life: member.Life, Wait: time.Hour, Retry: time.Hour, Next: time.Hour}, &fx)
	again := now + weir.Instant(table.MaxDeny/time.Microsecond)
	for _, at := range []weir.Instant{now, again - 1, again} {
		fx = protocol.Effects{}
		h.Take(at, r, &fx)
		if asked, denied := len(fx.Messages) > 0, len(fx.Answers) > 0; asked != (at == again) || denied == asked {
			t.Errorf("%d µs later: asked %v, denied %v", at-now, asked, denied)
		}
	}
}
