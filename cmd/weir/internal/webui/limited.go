package webui

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// shownNodes is how many nodes of a client are named. The others are counted.
const shownNodes = 2

// limitedPage is what limited.html shows.
type limitedPage struct {
	limited.List

	Client, Domain, Rule string // that are searched for
	Rows                 []limitedRow
	Total                int    // that fit
	From, To             int    // of the rows; 0: there is none
	Next, Before         string // of other pages; empty: there is none
	Here                 string // of this one
	Own                  bool   // only rules are shown that this visitor may read of
	Database             bool
}

// limitedRow is a client, as people see it.
type limitedRow struct {
	limited.Client

	Place     string // of the row in the page
	Holds     []mark
	Ago       string // the last denial
	First     string // the first one
	Again     string // when it may come again; empty: nobody knows
	NodeNames []string
	MoreNodes int
	Actions   []link
	Nameless  string // why there is no action; empty: there may be
}

// link is a link of a row.
type link struct{ Name, Path string }

// limited shows which clients are limited now.
func (p *Pages) limited(v *visit) error {
	reads, err := v.scope()
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(v.query("page"))
	if err != nil || number < 1 || number > math.MaxInt/pageSize {
		number = 1
	}
	page := limitedPage{
		List: p.options.Limited(v.r.Context()), Client: v.query("client"), Domain: v.query("domain"), Rule: v.query("rule"),
		Own: !reads.Whole(), Database: p.options.Store != nil,
	}
	found := page.Find(limited.Query{Client: page.Client, Domain: page.Domain, Rule: page.Rule, May: reads.Named})
	page.Total = len(found)
	at := func(n int) string {
		return Home + "limited?" + url.Values{"client": {page.Client}, "domain": {page.Domain}, "rule": {page.Rule}, "page": {strconv.Itoa(n)}}.Encode()
	}
	page.Here = at(number)
	begin := min((number-1)*pageSize, len(found))
	rows := found[begin:min(begin+pageSize, len(found))]
	if len(rows) > 0 {
		page.From, page.To = begin+1, begin+len(rows)
	}
	if begin > 0 {
		page.Before = at(number - 1)
	}
	if begin+pageSize < len(found) {
		page.Next = at(number + 1)
	}
	if page.Rows, err = v.limitedRows(rows, &page.List); err != nil {
		return err
	}
	return v.show(http.StatusOK, "limited", "Limited", page)
}

// limitedRows is clients of a list as people see them.
func (v *visit) limitedRows(clients []*limited.Client, list *limited.List) ([]limitedRow, error) {
	named := map[offenders.ID][]*rules.Rule{}
	for i := range clients {
		named[offenders.ID{Domain: clients[i].Domain, Rule: clients[i].Rule}] = nil
	}
	set := v.pages.options.Rules()
	if set != nil {
		for _, r := range set.Rules() {
			id := offenders.ID{Domain: r.Domain, Rule: r.Name}
			if all, shown := named[id]; shown {
				named[id] = append(all, r)
			}
		}
	}
	may := map[place]bool{}
	rows := make([]limitedRow, 0, len(clients))
	for _, c := range clients {
		row := limitedRow{
			Client: *c, Place: placeOf(c), Ago: roughly(list.At.Sub(c.Last)) + " ago", First: roughly(list.At.Sub(c.Since)) + " ago", NodeNames: c.Nodes[:min(len(c.Nodes), shownNodes)],
			MoreNodes: max(len(c.Nodes)-shownNodes, 0),
		}
		if !c.Until.IsZero() {
			row.Again = "now"
			if wait := c.Until.Sub(list.At); wait > 0 {
				row.Again = "in " + roughly(wait)
			}
		}
		all := named[offenders.ID{Domain: c.Domain, Rule: c.Rule}]
		for _, r := range all {
			if t := r.Temporary; t != nil && row.Holds == nil {
				row.Holds = []mark{held(t.Percent, t.Until)}
			}
		}
		rule, entries, why := limited.Whose(set, all, c, list.Hashed)
		if row.Nameless = why; why == "" {
			if text, ok := asLines(entries); ok {
				row.Actions = append(row.Actions, link{"Why", Home + "try?" + url.Values{"domain": {c.Domain}, "entries": {text}}.Encode()})
			} else {
				row.Nameless = "its name has bytes that the form for why can't hold"
			}
			at := place{c.Domain, rule.Path[0].ID()}
			if _, known := may[at]; !known {
				var err error
				if may[at], err = v.mayUnblock(at); err != nil {
					return nil, err
				}
			}
			if may[at] && !v.inFiles(c.Domain) && row.Nameless == "" {
				row.Actions = append(row.Actions, link{"Raise", exceptionLink(c.Domain, entries)})
			}
			if may[at] {
				row.Actions = append(row.Actions, link{"Unblock", Home + "unblock?" + url.Values{"domain": {c.Domain}, "rule": {c.Rule}, "client": {coded(c.Name)}}.Encode()})
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// roughly is a time in few words, rounded up.
func roughly(d time.Duration) string {
	unit := time.Second
	switch {
	case d > 48*time.Hour:
		unit = time.Hour
	case d > 2*time.Minute:
		unit = time.Minute
	}
	return about((max(d, 0) + unit - 1).Truncate(unit))
}

// placeOf is where a client stands in the page, also when the page has others.
func placeOf(c *limited.Client) string {
	return fmt.Sprintf("c%x", sha256.Sum256([]byte(c.Domain+"\x00"+c.Rule+"\x00"+c.Name)))[:17]
}

// coded is a client's name, which may have any bytes, as addresses and forms carry it.
func coded(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// asLines is a request as the form of try has it, if that can hold it.
func asLines(entries []rules.Entry) (text string, ok bool) {
	lines := make([]string, len(entries))
	for i, e := range entries {
		if strings.ContainsAny(e.Key, "=") || strings.ContainsAny(e.Key+e.Value, "\r\n\x00") || !utf8.ValidString(e.Key+e.Value) {
			return "", false
		}
		lines[i] = e.Key + "=" + e.Value
	}
	return strings.Join(lines, "\n"), true
}

// mayUnblock is whether this visitor may unblock clients of a rule. The store decides when it is done.
func (v *visit) mayUnblock(at place) (bool, error) {
	if v.store == nil || v.actor.Role < rulestore.Publish {
		return false, nil
	}
	if v.inFiles(at.domain) {
		return v.may(rulestore.Publish), nil
	}
	return v.mayPublish(at)
}

// unblockPage is what unblock.html shows.
type unblockPage struct {
	CSRF                 string
	Domain, Rule, Client string
	Coded                string   // the client
	Limits               []string // whose counts are reset
	Zero                 string   // why that does not help; empty: it does
	Reason               string
	Faults               map[string]string
	Back                 string

	deciding []*rules.Rule
}

// askUnblock asks whether a client is to be unblocked, and why.
func (p *Pages) askUnblock(v *visit) error {
	page, at, err := v.unblocking(v.query)
	if err != nil {
		return err
	}
	may, err := v.mayUnblock(at)
	if err != nil {
		return err
	}
	if !may {
		return &fault{http.StatusForbidden, "Your token may not unblock clients of the domain " + plain(page.Domain) + ": it takes the role publish for the team of the domain or of the rule, and for a domain of files for all teams."}
	}
	return v.show(http.StatusOK, "unblock", "Unblock a client", page)
}

// unblocking is the page for the client that a query or a form names, and its rule.
func (v *visit) unblocking(value func(string) string) (page unblockPage, at place, err error) {
	name, bad := base64.RawURLEncoding.DecodeString(value("client"))
	c := limited.Client{Domain: value("domain"), Rule: value("rule"), Name: string(name)}
	none := func(why string) error {
		return &fault{http.StatusNotFound, "This client can't be unblocked here: " + why + ". POST /v1/reset with a whole request resets its counts at one node."}
	}
	set := v.pages.options.Rules()
	if bad != nil || set == nil {
		return page, at, none("the address does not name one")
	}
	named := slices.DeleteFunc(set.Rules(), func(r *rules.Rule) bool { return r.Domain != c.Domain || r.Name != c.Rule })
	rule, entries, why := limited.Whose(set, named, &c, false)
	if why != "" {
		return page, at, none(why)
	}
	page = unblockPage{CSRF: v.csrf(), Domain: c.Domain, Rule: c.Rule, Client: c.Name, Coded: value("client"), Back: Home + "limited"}
	if page.deciding, err = v.pages.options.Decides(v.r.Context(), c.Domain, entries); err != nil {
		return page, at, err
	}
	for _, r := range page.deciding {
		page.Limits = append(page.Limits, r.Name+": "+r.Limit.String())
	}
	if zero := limited.Zero(page.deciding); zero != nil {
		page.Zero = limited.StillDenied(zero)
	}
	return page, place{c.Domain, rule.Path[0].ID()}, nil
}

// unblock has all nodes reset the counts of a client.
func (p *Pages) unblock(v *visit) error {
	page, at, err := v.unblocking(v.r.PostFormValue)
	if err != nil {
		return err
	}
	page.Reason = v.r.PostFormValue("reason")
	nodes, late, err := p.options.Unblock(v.r.Context(), v.actor, rulestore.Unblock{
		Domain: page.Domain, Item: at.id, Rule: page.Rule, Client: []byte(page.Client), Reason: page.Reason,
	})
	if err != nil {
		if page.Faults = faultsOf(err); page.Faults == nil {
			return err
		}
		return v.show(statusOf(err), "unblock", "Unblock a client", page)
	}
	said := limited.Unblocked(plain(page.Client), page.deciding, nodes, late)
	return v.see(page.Back, said)
}
