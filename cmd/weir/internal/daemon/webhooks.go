package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/webhooks"
)

const (
	// maxNotices is how many limits a node tells webhooks of each Step. Others are told of in a later Step, if it is so then.
	maxNotices = 256
	// noticeTime is how long it may take to write them down.
	noticeTime = 5 * time.Second
)

// notices are the limits that were near or have denied, of which webhooks are to be told.
type notices struct {
	mu   sync.Mutex
	list map[rulestore.Notice]bool
}

// count takes what was counted of a rule.
func (n *notices) count(id offenders.ID, denied, near int64) {
	if id.Shadow {
		return // it denies nobody
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for kind, there := range map[string]bool{rulestore.NearLimit: near > 0, rulestore.Denying: denied > 0} {
		if there && len(n.list) < maxNotices {
			if n.list == nil {
				n.list = map[rulestore.Notice]bool{}
			}
			n.list[rulestore.Notice{Kind: kind, Domain: id.Domain, Rule: id.Rule}] = true
		}
	}
}

// take is all of them, which are none any more.
func (n *notices) take() (list []rulestore.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for one := range n.list {
		list = append(list, one)
	}
	n.list = nil
	return list
}

// openWebhooks makes what sends to webhooks.
func (d *Daemon) openWebhooks() error {
	networks, err := webhooks.ParseNetworks(d.config.WebhookNetworks)
	if err != nil {
		return &ConfigError{"--webhook-networks", err.Error()}
	}
	d.webhooks = webhooks.New(webhooks.Options{Store: d.feed.Store, Networks: networks, Agent: "weir/" + d.config.Version, Log: d.config.Log})
	d.registry.MustRegister(telemetry.Readings(d.webhookMetrics))
	return nil
}

// keepNotices writes down each Step which limits were near or have denied, until ctx ends. A limit whose notice fails is written when it is so again.
func (d *Daemon) keepNotices(ctx context.Context) {
	keepTelling(ctx, offenders.Step, d.tellNotices, func(failed string) {
		d.config.Log.Warn("webhooks can't be told which limits are near or deny", "error", failed)
	})
}

// tellNotices writes down what was counted since the last time.
func (d *Daemon) tellNotices(ctx context.Context) error {
	list, store := d.notices.take(), d.feed.Store()
	if store == nil || len(list) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, noticeTime)
	defer stop()
	return store.NoticeLimits(ctx, list, time.Now())
}

func (d *Daemon) webhookMetrics() []prometheus.Metric {
	s := d.webhooks.Stats(time.Now())
	metrics := []prometheus.Metric{
		telemetry.Counter("weir_webhook_given_up_total", "Messages for webhooks that were never delivered: each was tried for a day.", s.GivenUp),
		telemetry.Gauge("weir_webhook_oldest_seconds", "Age of the oldest message that this node is to deliver to a webhook; 0: none is, or another node sends.", int64(s.Oldest/time.Second)),
	}
	by := prometheus.NewDesc("weir_webhook_deliveries_total", "Tries to deliver messages to webhooks, by how they ended.", []string{"result"}, nil)
	for result, n := range map[string]int64{"delivered": s.Delivered, "failed": s.Failed} {
		metrics = append(metrics, prometheus.MustNewConstMetric(by, prometheus.CounterValue, float64(n), result))
	}
	return metrics
}
