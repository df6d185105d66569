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
	Domain  string        `json:"domain"`
	Since   time.Time     `json:"since"`
	Whole   ShadowCounts  `json:"requests"`
	Recent  ShadowCounts  `json:"recent"`
	From    time.Time     `json:"recent_since"`
	Denied  []ShadowOf    `json:"newly_denied"`
	Passed  []ShadowOf    `json:"newly_passed"`
	Clients time.Time     `json:"clients_since"`
	Verdict ShadowVerdict `json:"verdict"`
}

// ShadowCounts are shadow.Counts.
type ShadowCounts struct {
	BothPass      int64 `json:"both_pass"`
	BothDeny      int64 `json:"both_deny"`
	OnlyCandidate int64 `json:"only_candidate_denies"`
	OnlyInForce   int64 `json:"only_in_force_denies"`
	Unknown       int64 `json:"unknown"`
}

// ShadowOf is a client that is treated differently, and by which rule.
type ShadowOf struct {
	Rule     string `json:"rule"`
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	Error    int64  `json:"error"`
}

// ShadowVerdict is a shadow.Verdict by the usual share.
type ShadowVerdict struct {
	Share   shadow.Share `json:"share_in_millionths"`
	Refused bool         `json:"refused"`
	Why     string       `json:"why"`
}

// ReportOf is r as the admin listener tells it.
func ReportOf(r *shadow.Report, v shadow.Verdict, name func(string) string) ShadowReport {
	clients := func(all []shadow.Client) []ShadowOf {
		told := make([]ShadowOf, 0, len(all))
		for _, c := range all {
			told = append(told, ShadowOf{c.Rule, name(c.Key), c.Requests, c.Error})
		}
		return told
	}
	return ShadowReport{
		Domain: r.Domain, Since: r.Since.UTC(), Whole: ShadowCounts(r.Counts), Recent: ShadowCounts(r.Recent), From: r.RecentSince.UTC(),
		Denied: clients(r.NewlyDenied), Passed: clients(r.NewlyPassed), Clients: r.ClientsSince.UTC(), Verdict: ShadowVerdict(v),
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
			s.Candidates = append(s.Candidates, ReportOf(r, shadow.Judge(r, shadow.UsualShare, ""), name))
		}
	}
	return s
}
