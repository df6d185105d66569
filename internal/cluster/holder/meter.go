package holder

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

const horizon = weir.Instant(protocol.Horizon / 1000)

// meter tells how many events were asked for in the last Horizon: those of this
// stretch of it, and of the one before by how much of it still counts.
type meter struct {
	begin     weir.Instant
	now, last int64
}

func (m *meter) roll(now weir.Instant) {
	switch since := now - m.begin; {
	case since >= 2*horizon:
		*m = meter{begin: now}
	case since >= horizon:
		*m = meter{begin: m.begin + horizon, last: m.now}
	}
}

func (m *meter) count(now weir.Instant, events int64) {
	m.roll(now)
	m.now = min(m.now+events, weir.MaxCount)
}

func (m *meter) events(now weir.Instant) int64 {
	m.roll(now)
	return m.now + m.last*int64(m.begin+horizon-now)/int64(horizon)
}
