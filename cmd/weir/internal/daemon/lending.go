package daemon

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
	"github.com/weir-limit/weir/internal/guard"
)

// unfallen is a guarded store that fails when it is away. Programs that it is lent to
// have fallbacks of their own.
type unfallen struct{ *guard.Guard }

// Take decides the asks by the store alone.
func (s unfallen) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeOrFail(ctx, asks, out)
}

// lending is how the store is lent to programs; nil when it is not.
func (d *Daemon) lending() *rls.Lending {
	if !d.config.GRPCStore {
		return nil
	}
	rules := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_grpc_store_rules", Help: "Rules of programs that use this daemon as their store; at most 4,096.",
	})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_grpc_store_refused_total",
		Help: "Calls of programs that use this daemon as their store that were refused, for a wrong token or " +
			"for too many rules.",
	}, []string{"reason"})
	d.registry.MustRegister(rules, refused)
	token, most := refused.WithLabelValues("token"), refused.WithLabelValues("rules")
	l := &rls.Lending{
		Store: d.storage.store, Parted: d.storage.node != nil, Refused: token.Inc,
		Rules: func(known int, beyond bool) {
			rules.Set(float64(known))
			if beyond {
				most.Inc()
			}
		},
	}
	if d.storage.guard != nil {
		l.Store = unfallen{d.storage.guard}
	}
	if d.keys.lending != nil {
		l.Token = d.keys.lending.Has
	}
	return l
}
