package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/rules"
)

// The bounds of an answer about traffic.
const (
	// maxTop is how many rules GET /v1/top and GET /v1/series tell of. The others
	// are counted: ask for a rule or a domain.
	maxTop = 100
	// usualNames is how many clients of each rule there are without n.
	usualNames = 10
)

// NewTraffic makes the part of the admin listener that tells what rules have passed
// and denied, and whom: GET /v1/top and GET /v1/series. name is what to say in
// the place of a client's name, known whether there are such rules here, active what is active: it may be nil. reads is whose clients a
// caller may read of: others are not told. charts is what all nodes have counted; nil: they share no rule database. A Gate belongs before it.
func NewTraffic(b *offenders.Book, name func(string) string, active func() *rules.Set, known func(offenders.Filter) bool, reads Reads, charts offenders.Charts, o Options) http.Handler {
	o.fill()
	a := &API{options: o, hint: "ask GET /v1/top or /v1/series"}
	a.routes = routes(
		route{method: http.MethodGet, path: "/v1/top", serve: a.telling(known, reads, func(_ context.Context, q trafficQuery) (any, error) {
			return topOf(b, q, overridden(active()), name), nil
		})},
		route{method: http.MethodGet, path: "/v1/series", serve: a.telling(known, reads, func(ctx context.Context, q trafficQuery) (any, error) {
			held := overridden(active())
			if q.span == "" {
				return seriesOf(b, q, held), nil
			}
			return chartOf(ctx, charts, q, held)
		})},
	)
	return a
}

func chartOf(ctx context.Context, charts offenders.Charts, q trafficQuery, held map[offenders.ID]*Override) (any, error) {
	switch {
	case charts == nil:
		return nil, faultf("span: the traffic of all nodes is kept in the rule database, and this daemon has none: start it with --data, or leave span out for the last hour of this node")
	case q.filter.Domain == "":
		return nil, faultf("span: name a domain, too, or a domain and a rule")
	}
	span, _ := offenders.SpanOf(q.span)
	c, err := charts(ctx, q.filter, span.Of)
	if err != nil {
		return nil, &problem{http.StatusServiceUnavailable, err.Error()}
	}
	out := trafficSeries{At: time.Now().UTC(), Step: int64(c.Step / time.Second), Nodes: "all"}
	for _, one := range []struct {
		shadow bool
		points []offenders.Point
	}{{false, c.Enforced}, {true, c.Shadow}} {
		if len(one.points) > 0 {
			id := offenders.ID{Domain: q.filter.Domain, Rule: q.filter.Rule, Shadow: one.shadow}
			out.Series = append(out.Series, trafficHistory{trafficRuleOf(id, nil, held), one.points[0].To.Add(-c.Step), one.points})
		}
	}
	return out, nil
}

// Reads is whose clients the caller of a request may read of.
type Reads func(*http.Request) (*scope.Scope, error)

// telling answers with what make makes of the query. Rules that are not known are
// no rules without traffic, nor are those that the caller may not read of.
func (a *API) telling(known func(offenders.Filter) bool, reads Reads, make func(context.Context, trafficQuery) (any, error)) func(http.ResponseWriter, *http.Request) int {
	return func(w http.ResponseWriter, r *http.Request) int {
		q, err := readTraffic(r)
		if err != nil {
			return a.fail(w, r, err)
		}
		if !known(q.filter) {
			return send(w, unknownRules(q.filter))
		}
		if q.scope, err = reads(r); err != nil {
			return a.fail(w, r, err)
		}
		q.filter.May = func(id offenders.ID) bool { return q.scope.Named(id.Domain, id.Rule) }
		if f := q.filter; f.Rule != "" && !known(f) || f.Rule == "" && f.Domain != "" && !q.scope.Any(f.Domain) {
			return a.fail(w, r, notYours(f.Domain))
		}
		said, err := make(r.Context(), q)
		if err != nil {
			return a.fail(w, r, err)
		}
		text, err := json.Marshal(said)
		if err != nil {
			return a.fail(w, r, err)
		}
		return sendAnswer(w, text)
	}
}

// notYours refuses to tell a caller of clients of a domain; empty: of several.
func notYours(domain string) error {
	what := "these rules"
	if domain != "" {
		what = "domain " + quote(domain)
	}
	return &Shut{RefusedRole, "your token may not read which clients of " + what + " are denied; send a token of the domain's team, or of all teams (*), which a domain of files takes; " +
		`or an administrator of the team makes the domain public: PATCH /v1/domains/DOMAIN {"public": true}`}
}

func unknownRules(f offenders.Filter) *problem {
	what := "domain " + quote(f.Domain)
	switch {
	case f.Domain == "":
		what = "rule " + quote(f.Rule)
	case f.Rule != "":
		what = "rule " + quote(f.Rule) + " of " + what
	}
	return &problem{http.StatusNotFound, "there is no " + what + " active here; GET /v1/export lists all"}
}

// trafficQuery is the query of GET /v1/top, /v1/series and /v1/shadow.
type trafficQuery struct {
	filter offenders.Filter
	scope  *scope.Scope // of whom asks
	names  int          // of clients, of each rule
	span   string       // of a chart; empty: the last hour of this node
}

// readQuery is the parameters of a request, of which each may stand there once.
func readQuery(r *http.Request) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, faultf("the query can't be read: %v; escape all but letters and digits as %%XX", err)
	}
	query := make(map[string]string, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, faultf("%s stands there twice; write it once", quote(name))
		}
		query[name] = all[0]
	}
	return query, nil
}

func readTraffic(r *http.Request) (trafficQuery, error) {
	q := trafficQuery{names: usualNames}
	values, err := readQuery(r)
	if err != nil {
		return q, err
	}
	for name, value := range values {
		switch {
		case name == "domain" && value != "":
			q.filter.Domain = value
		case name == "rule" && value != "" && r.URL.Path != "/v1/shadow":
			q.filter.Rule = value
		case name == "domain", name == "rule":
			return q, faultf("%s is empty; name one, or leave it out for all", name)
		case name == "n" && r.URL.Path != "/v1/series":
			if q.names, err = strconv.Atoi(value); err != nil || q.names < 0 || q.names > offenders.Names {
				return q, faultf("n: write how many clients of each rule, from 0 to %d", offenders.Names)
			}
		case name == "span" && r.URL.Path == "/v1/series":
			if _, ok := offenders.SpanOf(value); !ok {
				return q, faultf("span: write 15m, 1h, 6h, 24h, 7d or 30d, not %s", quote(value))
			}
			q.span = value
		default:
			return q, faultf("unknown parameter %s; the parameters are domain, rule but of /v1/shadow, n but of /v1/series, and span of /v1/series", quote(name))
		}
	}
	return q, nil
}

// TrafficRule is which rule something is told of.
type TrafficRule struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	Limit  string `json:"limit,omitempty"` // none: each request brings its own
	Shadow bool   `json:"shadow"`
	// Override is what holds for the rule that has this name now; nil: it is as written.
	Override *Override `json:"override,omitempty"`
}

// Same is whether both are one rule; its limit may have changed.
func (r TrafficRule) Same(o TrafficRule) bool {
	return r.Domain == o.Domain && r.Rule == o.Rule && r.Shadow == o.Shadow
}

// overridden is what holds for a time of rules.
func overridden(set *rules.Set) map[offenders.ID]*Override {
	held := map[offenders.ID]*Override{}
	for _, r := range set.Temporary() {
		held[offenders.ID{Domain: r.Domain, Rule: r.Name, Shadow: r.Shadow}] = overrideOf(r.Temporary)
	}
	return held
}

func trafficRuleOf(id offenders.ID, limit *weir.Limit, held map[offenders.ID]*Override) TrafficRule {
	r := TrafficRule{Domain: id.Domain, Rule: id.Rule, Shadow: id.Shadow, Override: held[id]}
	if limit != nil {
		r.Limit = limit.String()
	}
	return r
}

// Top is the answer of GET /v1/top. docs/operating.md tells its members.
type Top struct {
	At      time.Time `json:"at"`
	Rules   []TopRule `json:"rules"`
	Omitted int       `json:"omitted"`
}

// TopRule is one rule of a Top.
type TopRule struct {
	TrafficRule

	Since   time.Time  `json:"since"`
	Passed  int64      `json:"passed"`
	Denied  int64      `json:"denied"`
	Clients TopClients `json:"clients"`
}

// TopClients are the most limited clients of a rule.
type TopClients struct {
	Since  *time.Time  `json:"since,omitempty"` // none: nobody was denied in the last minutes
	Denied int64       `json:"denied"`
	Missed int64       `json:"missed"`
	Others int64       `json:"others_at_most"`
	Top    []TopClient `json:"top"`
}

// TopClient is one of them. It was denied Denied times at most, and Error times
// fewer at least.
type TopClient struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
	Error  int64  `json:"error"`
}

func topOf(b *offenders.Book, q trafficQuery, held map[offenders.ID]*Override, name func(string) string) Top {
	rules, more := b.Top(q.filter, maxTop)
	t := Top{At: time.Now().UTC(), Rules: make([]TopRule, 0, len(rules)), Omitted: more}
	for i := range rules {
		r := &rules[i]
		one := TopRule{
			TrafficRule: trafficRuleOf(r.ID, r.Limit, held), Since: r.Since.UTC(), Passed: r.Passed, Denied: r.Denied,
			Clients: TopClients{Missed: r.Missed, Top: []TopClient{}},
		}
		if c := r.Clients; c != nil {
			since := r.ClientsSince.UTC()
			one.Clients.Since, one.Clients.Denied, one.Clients.Others = &since, c.Total(), c.Least()
			for _, count := range c.Top(q.names) {
				one.Clients.Top = append(one.Clients.Top, TopClient{name(count.Name), count.N, count.Error})
			}
		}
		t.Rules = append(t.Rules, one)
	}
	return t
}

// trafficSeries is the answer of GET /v1/series.
type trafficSeries struct {
	At      time.Time        `json:"at"`
	Step    int64            `json:"step_seconds"`
	Nodes   string           `json:"nodes,omitempty"` // "all": of the rule database; none: this one
	Series  []trafficHistory `json:"series"`
	Omitted int              `json:"omitted"`
}

// trafficHistory is the history of one rule.
type trafficHistory struct {
	TrafficRule

	From   time.Time         `json:"from"`
	Points []offenders.Point `json:"points"`
}

func seriesOf(b *offenders.Book, q trafficQuery, held map[offenders.ID]*Override) trafficSeries {
	histories, more := b.Series(q.filter, maxTop)
	point := func(p offenders.Point) offenders.Point {
		p.To = p.To.UTC()
		return p
	}
	history := func(h offenders.Series) trafficHistory {
		return trafficHistory{trafficRuleOf(h.ID, h.Limit, held), h.From.UTC(), each(h.Points, point)}
	}
	step := int64(offenders.Step / time.Second)
	return trafficSeries{At: time.Now().UTC(), Step: step, Series: each(histories, history), Omitted: more}
}
