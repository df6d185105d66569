package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

// NewShadow makes the part of the admin listener that tells how candidates differ
// from the active rules: GET /v1/shadow. reports is that of a domain, "" of all, with so many clients. known and reads are
// as of NewTraffic. A Gate belongs before it.
func NewShadow(reports func(ctx context.Context, domain string, clients int) []*shadow.Report, known func(offenders.Filter) bool, reads Reads, o Options) http.Handler {
	o.fill()
	a := &API{options: o, hint: "ask GET /v1/shadow"}
	a.routes = routes(route{method: http.MethodGet, path: "/v1/shadow", serve: a.telling(known, reads, func(ctx context.Context, q trafficQuery) (any, error) {
		return shadowOf(slices.DeleteFunc(reports(ctx, q.filter.Domain, q.names), func(r *shadow.Report) bool { return !q.scope.Item(r.Key.Domain, r.Key.Rule) })), nil
	})})
	return a
}

// shadowAnswer is the answer of GET /v1/shadow. docs/operating.md tells its
// members.
type shadowAnswer struct {
	At         time.Time      `json:"at"`
	Candidates []ShadowReport `json:"candidates"`
	Omitted    int            `json:"omitted"`
}

// ShadowReport is a shadow.Report, and what would be said if the candidate were
// to come into force.
type ShadowReport struct {
	Domain  string          `json:"domain"`
	Rule    string          `json:"rule"`
	Version int64           `json:"version,omitempty"`
	Nodes   int             `json:"nodes"`
	Since   time.Time       `json:"since"`
	Whole   shadow.Counts   `json:"requests"`
	Recent  shadow.Counts   `json:"recent"`
	From    time.Time       `json:"recent_since"`
	Denied  []shadow.Client `json:"newly_denied"`
	Passed  []shadow.Client `json:"newly_passed"`
	Clients time.Time       `json:"clients_since"`
	Verdict shadow.Verdict  `json:"verdict"`
}

// reportOf is r as the admin listener tells it.
func reportOf(r *shadow.Report) ShadowReport {
	same := func(c shadow.Client) shadow.Client { return c }
	return ShadowReport{
		Domain: r.Key.Domain, Rule: r.Key.Rule, Version: r.Key.Version, Nodes: max(r.Nodes, 1),
		Since: r.Since.UTC(), Whole: r.Counts, Recent: r.Recent, From: r.RecentSince.UTC(),
		Denied: each(r.NewlyDenied, same), Passed: each(r.NewlyPassed, same), Clients: r.ClientsSince.UTC(),
		Verdict: shadow.Judge(r, shadow.UsualShare),
	}
}

func shadowOf(reports []*shadow.Report) shadowAnswer {
	s := shadowAnswer{At: time.Now().UTC(), Candidates: []ShadowReport{}, Omitted: max(len(reports)-maxTop, 0)}
	for _, r := range reports[:len(reports)-s.Omitted] {
		s.Candidates = append(s.Candidates, reportOf(r))
	}
	return s
}
