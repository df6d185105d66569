package httpapi

import (
	"net/http"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

// NewShadow makes the part of the admin listener that tells how candidates differ
// from the active rules: GET /v1/shadow. name and known are as of NewTraffic. A
// Gate belongs before it.
func NewShadow(b *shadow.Board, name func(string) string, known func(offenders.Filter) bool, o Options) http.Handler {
	o.fill()
	a := &API{options: o, hint: "ask GET /v1/shadow"}
	a.routes = routes(route{method: http.MethodGet, path: "/v1/shadow", serve: a.telling(known, func(q trafficQuery) any { return shadowOf(b, q, name) })})
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
func reportOf(r *shadow.Report, name func(string) string) ShadowReport {
	named := func(c shadow.Client) shadow.Client {
		c.Key = name(c.Key)
		return c
	}
	return ShadowReport{
		Domain: r.Domain, Since: r.Since.UTC(), Whole: r.Counts, Recent: r.Recent, From: r.RecentSince.UTC(),
		Denied: each(r.NewlyDenied, named), Passed: each(r.NewlyPassed, named), Clients: r.ClientsSince.UTC(),
		Verdict: shadow.Judge(r, shadow.UsualShare, ""),
	}
}

func shadowOf(b *shadow.Board, q trafficQuery, name func(string) string) shadowAnswer {
	now := time.Now()
	s := shadowAnswer{At: now.UTC(), Candidates: []ShadowReport{}}
	domains := b.Domains()
	if q.filter.Domain != "" {
		domains = []string{q.filter.Domain}
	}
	s.Omitted = max(len(domains)-maxTop, 0)
	for _, domain := range domains[:len(domains)-s.Omitted] {
		if r := b.Report(domain, q.names, now); r != nil {
			s.Candidates = append(s.Candidates, reportOf(r, name))
		}
	}
	return s
}
