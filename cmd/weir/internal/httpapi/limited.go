package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// The bounds of GET /v1/limited.
const (
	// maxLimited is how many clients an answer has. The others are counted: ask for the next ones with after.
	maxLimited = 1000
	// usualLimited is how many without n.
	usualLimited = 100
)

// NewLimited makes the part of the admin listener that tells which clients are limited now: GET /v1/limited. active is what is active, and may be
// nil; decides is what decides about a client; reads is whose clients a caller may read of: others are left out. A Gate belongs before it.
func NewLimited(list func(context.Context) limited.List, active func() *rules.Set, decides limited.Decides, reads Reads, o Options) http.Handler {
	o.fill()
	a := &API{options: o, hint: "ask GET /v1/limited"}
	a.routes = routes(route{method: http.MethodGet, path: "/v1/limited", serve: func(w http.ResponseWriter, r *http.Request) int {
		q, err := readLimited(r)
		if err != nil {
			return a.fail(w, r, err)
		}
		s, err := reads(r)
		if err != nil {
			return a.fail(w, r, err)
		}
		q.May = s.Named
		text, err := json.Marshal(limitedOf(r.Context(), list(r.Context()), q, active(), decides))
		if err != nil {
			return a.fail(w, r, err)
		}
		return sendAnswer(w, text)
	}})
	return a
}

// limitedQuery is the query of GET /v1/limited.
type limitedQuery struct {
	limited.Query

	n, after int
}

func readLimited(r *http.Request) (limitedQuery, error) {
	q := limitedQuery{n: usualLimited}
	values, err := readQuery(r)
	if err != nil {
		return q, err
	}
	for name, value := range values {
		switch name {
		case "client":
			q.Client = value
		case "domain":
			q.Domain = value
		case "rule":
			q.Rule = value
		case "n":
			if q.n, err = strconv.Atoi(value); err != nil || q.n < 0 || q.n > maxLimited {
				return q, faultf("n: write how many clients, from 0 to %d", maxLimited)
			}
		case "after":
			if q.after, err = strconv.Atoi(value); err != nil || q.after < 0 {
				return q, faultf("after: write how many clients to leave out, as next of the answer before")
			}
		default:
			return q, faultf("unknown parameter %s; the parameters are client, domain, rule, n and after", quote(name))
		}
	}
	return q, nil
}

// Limited is the answer of GET /v1/limited. docs/operating.md tells its members.
type Limited struct {
	At      time.Time       `json:"at"`
	Within  int64           `json:"within_seconds"`
	Nodes   []string        `json:"nodes"`
	Silent  []string        `json:"silent"`
	Alone   string          `json:"alone,omitempty"`
	Total   int             `json:"total"`
	Omitted int             `json:"omitted"`
	Missed  int64           `json:"missed"`
	Clients []LimitedClient `json:"clients"`
	Next    int             `json:"next,omitempty"` // none: these are the last
}

// LimitedClient is one of them. It was denied Denied times at most, and Error times fewer at least.
type LimitedClient struct {
	TrafficRule

	Key    string    `json:"key"`
	Denied int64     `json:"denied"`
	Error  int64     `json:"error"`
	Lately int64     `json:"denied_lately"`
	Since  time.Time `json:"since"`
	Last   time.Time `json:"last"`
	Again  *float64  `json:"retry_after_seconds,omitempty"` // none: nobody knows
	Nodes  []string  `json:"nodes"`
}

func limitedOf(ctx context.Context, list limited.List, q limitedQuery, active *rules.Set, decides limited.Decides) Limited {
	found := list.Find(q.Query)
	out := Limited{
		At: list.At.UTC(), Within: int64(limited.For / time.Second), Nodes: list.Nodes, Silent: append([]string{}, list.Silent...), Alone: list.Alone,
		Total: len(found), Omitted: list.Omitted, Missed: list.Missed, Clients: []LimitedClient{},
	}
	page := found[min(q.after, len(found)):]
	if len(page) > q.n {
		page, out.Next = page[:q.n], q.after+q.n
	}
	shown := map[offenders.ID]TrafficRule{}
	for i := range page {
		shown[offenders.ID{Domain: page[i].Domain, Rule: page[i].Rule}] = TrafficRule{Domain: page[i].Domain, Rule: page[i].Rule}
	}
	named := map[offenders.ID][]*rules.Rule{}
	for _, r := range rulesOf(active) {
		id := offenders.ID{Domain: r.Domain, Rule: r.Name}
		if _, ok := shown[id]; ok && !r.Unlimited {
			named[id] = append(named[id], r)
			shown[id] = TrafficRule{Domain: r.Domain, Rule: r.Name, Limit: r.Limit.String(), Override: overrideOf(r.Temporary)}
		}
	}
	for i := range page {
		c := page[i]
		id := offenders.ID{Domain: c.Domain, Rule: c.Rule}
		one := LimitedClient{
			TrafficRule: shown[id], Key: c.Name, Denied: c.Denied, Error: c.Error, Lately: c.Lately,
			Since: c.Since.UTC(), Last: c.Last.UTC(), Nodes: c.Nodes,
		}
		if own := ownLimit(ctx, active, named[id], c, list.Hashed, decides); own != "" {
			one.Limit = own
		}
		if !c.Until.IsZero() {
			one.Again = new(max(c.Until.Sub(list.At), 0).Seconds())
		}
		out.Clients = append(out.Clients, one)
	}
	return out
}

// ownLimit is the limit that decides about a client, which an exception may have in place of its rule's; empty: nobody can tell.
func ownLimit(ctx context.Context, active *rules.Set, named []*rules.Rule, c *limited.Client, hashed bool, decides limited.Decides) string {
	rule, entries, why := limited.Whose(active, named, c, hashed)
	if why != "" {
		return ""
	}
	deciding, err := decides(ctx, c.Domain, entries)
	if err != nil {
		return "" // a peek asks no store
	}
	for _, r := range deciding {
		if r.Name == rule.Name {
			return r.Limit.String()
		}
	}
	return ""
}

// rulesOf is the rules of a set, which may be nil.
func rulesOf(set *rules.Set) []*rules.Rule {
	if set == nil {
		return nil
	}
	return set.Rules()
}
