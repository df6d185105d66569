package webui

import (
	"html/template"
	"net/http"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
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
	More         int // rules that are not shown
	One          *trafficOf
}

// trafficRow is a rule, with what holds for it.
type trafficRow struct {
	offenders.Top

	Holds []mark
}

// trafficOf is what one rule passes and denies.
type trafficOf struct {
	Since   time.Time // of the clients
	Total   int64     // denials since then
	Others  int64     // at most, of anybody who is not named
	Clients []offenders.Count
	Picture template.HTML
}

// traffic shows what rules pass and deny, and whom most.
func (p *Pages) traffic(v *visit) error {
	page := trafficPage{Domain: v.query("domain"), Rule: v.query("rule")}
	filter := offenders.Filter{Domain: page.Domain, Rule: page.Rule}
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
	if page.Rule == "" || len(page.Rows) == 0 {
		return v.show(http.StatusOK, "traffic", title, page)
	}
	one := &trafficOf{Since: page.Rows[0].ClientsSince}
	if c := page.Rows[0].Clients; c != nil {
		one.Total, one.Others = c.Total(), c.Least()
		for _, count := range c.Top(topClients) {
			count.Name = p.options.Name(count.Name)
			one.Clients = append(one.Clients, count)
		}
	}
	if series, _ := p.options.Book.Series(filter, 1); len(series) > 0 {
		one.Picture = timeline(series[0], time.Now())
	}
	page.One = one
	return v.show(http.StatusOK, "traffic", plain(page.Rule), page)
}

// timeline draws what a rule passed and denied in the last hour.
func timeline(s offenders.Series, now time.Time) template.HTML {
	hour := int64(time.Hour / time.Microsecond)
	lines := plot.Lines{
		X: plot.Axis{Name: "before now", Unit: plot.Micros, Min: -hour, Max: 0}, Y: plot.Axis{Name: "requests in 10 s", Unit: plot.Events, Max: 1},
		Lines: []plot.Line{{Name: "passed", Steps: true}, {Name: "denied", Steps: true}},
	}
	begin := s.From
	for _, p := range s.Points {
		x := max(begin.Sub(now).Microseconds(), -hour)
		lines.Lines[0].Points = append(lines.Lines[0].Points, plot.Point{X: x, Y: p.Passed})
		lines.Lines[1].Points = append(lines.Lines[1].Points, plot.Point{X: x, Y: p.Denied})
		begin = p.To
	}
	if len(s.Points) == 0 {
		return ""
	}
	picture := plot.Picture{
		Name: "timeline", Title: "The last hour", Drawing: lines,
		Description: "How many requests the rule passed and denied in each 10 seconds of the last hour. The table below tells of the sums.",
	}
	return template.HTML(picture.Inline()) //nolint:gosec // plot escapes all texts
}
