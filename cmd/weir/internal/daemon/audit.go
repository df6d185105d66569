package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/auditlog"
	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/rules"
)

// openAudit makes what takes resets and sign-ins for the audit. It is closed after the listeners, and before the rule database.
func (d *Daemon) openAudit() {
	o := auditlog.Options{Log: d.config.Log}
	if d.feed != nil {
		o.Store = d.feed.Store
	}
	d.auditLog = auditlog.New(o)
	d.closing.push("lines of the audit are lost", d.auditLog.Close)
}

// audit takes what somebody did by a request.
func (d *Daemon) audit(r *http.Request, e rulestore.Event) {
	by, _ := ruleapi.By(r) // nobody had to say
	by.Address = from(r)
	d.auditLog.Add(by, e)
}

// auditReset takes that counts of a request were reset, or that the store failed: it may have reset some then.
func (d *Daemon) auditReset(r *http.Request, q *rules.Request, err error) {
	if _, bad := errors.AsType[*rules.RequestError](err); bad || errors.Is(err, rules.ErrNoRules) {
		return // nothing was tried
	}
	if e := d.reset(q); e.Reason != "" {
		if err != nil {
			e.Refused = err.Error()
		}
		d.audit(r, e)
	}
}

// reset is the line about a reset. It has no reason when the request meets no count.
func (d *Daemon) reset(q *rules.Request) rulestore.Event {
	e := rulestore.Event{Action: rulestore.Reset, Domain: q.Domain}
	var items, counts []string
	for i := range q.Descriptors {
		entries := q.Descriptors[i].Entries
		found, _ := d.limiter.Set().Match(q.Domain, &q.Descriptors[i])
		var names []string
		for _, rule := range found {
			if rule.Unlimited {
				continue
			}
			names = append(names, rule.Name)
			e.Team = rule.Owner
			if len(rule.Path) > 0 {
				items = append(items, rule.Path[0].ID())
			}
		}
		if len(names) > 0 {
			counts = append(counts, strings.Join(names, ", ")+" of "+d.clientName(string(found[0].AppendKeyName(nil, entries))))
		}
	}
	if slices.Sort(items); len(slices.Compact(items)) == 1 {
		e.Rule = items[0]
	} else {
		e.Team = ""
	}
	e.Reason = strings.Join(counts, "; ")
	return e
}

// auditRefused takes that somebody may not do what the audit would have, had it been done.
func (d *Daemon) auditRefused(r *http.Request, by rulestore.Actor, why string) {
	action := map[string]string{"/v1/reset": rulestore.Reset, "/v1/cluster/forget": rulestore.Forget}[r.URL.Path]
	if action != "" && r.Method == http.MethodPost && d.changes.Admit(r.Context(), by) == nil {
		d.auditLog.Add(by, rulestore.Event{Action: action, Refused: why})
	}
}

// auditVisit takes who has signed in or out. Beyond the pace of changes a token fills no disk with it.
func (d *Daemon) auditVisit(by rulestore.Actor, e rulestore.Event) {
	if d.changes == nil || d.changes.Admit(context.Background(), by) == nil {
		d.auditLog.Add(by, e)
	}
}

// from is where a request comes from: an IP address without its port, or rulestore.Local.
func from(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return rulestore.Local // by a socket
	}
	return at.Addr().Unmap().String()
}

func (d *Daemon) auditMetrics() []prometheus.Metric {
	s := d.auditLog.Stats()
	return []prometheus.Metric{
		telemetry.Gauge("weir_audit_waiting_lines", "Lines of the audit about resets and sign-ins that wait for the rule database.", s.Waiting),
		telemetry.Counter("weir_audit_lost_lines_total", "Such lines that are in the log only, because too many waited.", s.Lost),
	}
}
