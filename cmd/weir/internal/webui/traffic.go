package webui

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// The bounds of the traffic page.
const (
	topRules   = 50 // of all rules, those that denied most
	topClients = 20 // of one rule
)

// trafficPage is what traffic.html shows.
type trafficPage struct {
	Domain, Rule string // empty: of all
	Rows         []trafficRow
	More         int  // rules that are not shown
	Own          bool // only rules are shown that this visitor may read of
	One          *trafficOf
	Chart        *chart // nil: there is none
}

// trafficRow is a rule, with what holds for it.
type trafficRow struct {
	offenders.Top

	Holds []mark
}

// trafficOf is whom one rule denies.
type trafficOf struct {
	Since   time.Time // of the clients
	Total   int64     // denials since then
	Others  int64     // at most, of anybody who is not named
	Clients []offenders.Count
}

// chart is what a rule or a domain passes and denies.
type chart struct {
	Spans   []span // to choose from; none: it is the last hour of this node
	Picture template.HTML
	Broad   template.HTML // the same, for a page that is broad
	Marks   []change      // the newest first
	More    int           // that are not shown
}

// span is a link to a chart of another one.
type span struct {
	Name, Link string
	Shown      bool // it is this one
}

// change is one that a chart marks.
type change struct {
	Number int // in the chart
	rulestore.Event
}

// maxMarks is how many changes a chart marks, and lists: the newest.
const maxMarks = 20

// traffic shows what rules pass and deny, and whom most.
func (p *Pages) traffic(v *visit) error {
	page := trafficPage{Domain: v.query("domain"), Rule: v.query("rule")}
	reads, err := v.scope()
	if err != nil {
		return err
	}
	page.Own = !reads.Whole()
	filter := offenders.Filter{Domain: page.Domain, Rule: page.Rule, May: func(id offenders.ID) bool { return reads.Named(id.Domain, id.Rule) }}
	rows, more := p.options.Book.Top(filter, topRules)
	page.More = more
	holds := p.heldRules()
	for _, r := range rows {
		row := trafficRow{Top: r}
		if m, ok := holds[r.ID]; ok {
			row.Holds = []mark{m}
		}
		page.Rows = append(page.Rows, row)
	}
	title := "Traffic"
	if page.Rule != "" && len(rows) > 0 {
		title, page.One = plain(page.Rule), p.trafficOf(rows[0])
	}
	if page.Domain != "" {
		var err error
		if page.Chart, err = v.chart(filter, v.query("span")); err != nil {
			return err
		}
	}
	return v.show(http.StatusOK, "traffic", title, page)
}

func (p *Pages) trafficOf(top offenders.Top) *trafficOf {
	one := &trafficOf{Since: top.ClientsSince}
	if c := top.Clients; c != nil {
		one.Total, one.Others = c.Total(), c.Least()
		for _, count := range c.Top(topClients) {
			count.Name = p.options.Name(count.Name)
			one.Clients = append(one.Clients, count)
		}
	}
	return one
}

// chart is the one of a rule or a domain; without a rule database that of a rule at this node, and nil of a domain.
func (v *visit) chart(of offenders.Filter, name string) (*chart, error) {
	if v.pages.options.Charts == nil {
		series, _ := v.pages.options.Book.Series(of, 1)
		if of.Rule == "" || len(series) == 0 || len(series[0].Points) == 0 {
			return nil, nil
		}
		c := new(chart)
		c.draw(timeline("The last hour of this node", time.Hour, offenders.Chart{Step: offenders.Step, Enforced: series[0].Points}, nil, time.Now()))
		return c, nil
	}
	shown, ok := offenders.SpanOf(cmp.Or(name, offenders.UsualSpan))
	if !ok {
		return nil, &fault{http.StatusBadRequest, "A chart has a span of 15m, 1h, 6h, 24h, 7d or 30d."}
	}
	c := &chart{}
	for _, s := range offenders.Spans() {
		at := Home + "traffic?" + url.Values{"domain": {of.Domain}, "rule": {of.Rule}, "span": {s.Name}}.Encode()
		c.Spans = append(c.Spans, span{s.Name, at, s == shown})
	}
	read, err := v.pages.options.Charts(v.r.Context(), of, shown.Of)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if c.Marks, c.More, err = v.marks(of, now.Add(-shown.Of)); err != nil {
		return nil, err
	}
	c.draw(timeline("All nodes, "+spanWords(shown), shown.Of, read, c.Marks, now))
	return c, nil
}

func (c *chart) draw(p plot.Picture) {
	c.Picture, c.Broad = template.HTML(p.Inline()), template.HTML(p.Broad()) //nolint:gosec // plot escapes all texts
}

// spanWords is a span as people say it.
func spanWords(s offenders.Span) string {
	if s.Of <= time.Hour {
		return fmt.Sprintf("the last %d minutes", s.Of/time.Minute)
	}
	if s.Of <= 24*time.Hour {
		return fmt.Sprintf("the last %d hours", s.Of/time.Hour)
	}
	return fmt.Sprintf("the last %d days", s.Of/(24*time.Hour))
}

// marks is what was done to a rule or a domain since a time that changes what passes, the newest first.
func (v *visit) marks(of offenders.Filter, since time.Time) (marks []change, more int, err error) {
	if v.store == nil || v.inFiles(of.Domain) {
		return nil, 0, nil
	}
	item, known := "", of.Rule == ""
	if set := v.pages.options.Rules(); set != nil && !known {
		for _, r := range set.Rules() {
			if r.Domain == of.Domain && r.Name == of.Rule && len(r.Path) > 0 {
				item, known = r.Path[0].ID(), true
				break
			}
		}
	}
	events, err := v.store.Audit(v.r.Context(), rulestore.Audited{Domain: of.Domain, Before: math.MaxInt64, Changes: true})
	for _, e := range events {
		switch {
		case e.At.Before(since), !changesTraffic(&e):
		case of.Rule != "" && e.Rule != "" && (!known || e.Rule != item):
		case len(marks) == maxMarks:
			more++
		default:
			marks = append(marks, change{Event: e})
		}
	}
	for i := range marks {
		marks[i].Number = len(marks) - i
	}
	return marks, more, err
}

// changesTraffic is whether an event of the audit changes what passes. The text before the rules of a file does not.
func changesTraffic(e *rulestore.Event) bool {
	action, _, _ := strings.Cut(e.Action, ".")
	if action == "enforce" && e.Rule == rulestore.Frame || e.Action == "disable.asked" {
		return false
	}
	return slices.Contains([]string{"enforce", "disable", "import", "open", "tighten", "override", "exception"}, action) || e.Action == "domain.delete" || e.Action == "domain.restore"
}

// timeline draws what was passed and denied, and what would have been denied while a rule was not enforced.
func timeline(title string, span time.Duration, read offenders.Chart, marks []change, now time.Time) plot.Picture {
	x := func(at time.Time) int64 { return max(at.Sub(now), -span).Microseconds() }
	of := func(points []offenders.Point, value func(offenders.Point) int64) (line []plot.Point, any bool) {
		for _, p := range points {
			y := value(p)
			line, any = append(line, plot.Point{X: x(p.To.Add(-read.Step)), Y: y}), any || y > 0
		}
		return line, any
	}
	passed := slices.Clone(read.Enforced)
	for i, p := range read.Shadow {
		passed[i].Passed += p.Passed + p.Denied
	}
	lines := plot.Lines{
		X: plot.Axis{Name: "time", Unit: plot.Micros, Min: -span.Microseconds(), Max: 0, Ago: true}, Y: plot.Axis{Name: "requests in " + about(read.Step), Unit: plot.Events, Max: 1},
	}
	add := func(name string, points []offenders.Point, value func(offenders.Point) int64, always bool) {
		if line, any := of(points, value); any || always {
			lines.Lines = append(lines.Lines, plot.Line{Name: name, Steps: true, Points: line})
		}
	}
	add("passed", passed, func(p offenders.Point) int64 { return p.Passed }, true)
	add("denied", read.Enforced, func(p offenders.Point) int64 { return p.Denied }, true)
	add("would be denied", read.Shadow, func(p offenders.Point) int64 { return p.Denied }, false)
	for i := len(marks) - 1; i >= 0; i-- {
		lines.Marks = append(lines.Marks, plot.Mark{X: x(marks[i].At), Name: strconv.Itoa(marks[i].Number)})
	}
	return plot.Picture{
		Name: "timeline", Title: title, Drawing: lines,
		Description: "How many requests were passed and denied in each " + about(read.Step) + ". Numbers mark changes, which are listed below.",
	}
}
