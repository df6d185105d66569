package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/weir-limit/weir/internal/plot"
	"github.com/weir-limit/weir/sim"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// page is what page.html shows.
type page struct {
	Report
	Policy   string        // of its content
	Style    template.HTML // the element
	Title    string
	Traffic  []string // sentences
	Verdicts []verdict
	Right    table
	Manner   table
	Pictures []picture
	Lessons  []picture
}

// verdict is what is said of one trial.
type verdict struct {
	Name, Of  string // Of is what the name means, in words
	Sentences []string
}

type picture struct {
	SVG     template.HTML
	Caption string
}

// table is figures, a row for each trial.
type table struct {
	Caption string
	Columns []column
	Rows    []row
}

// column is a figure, and what it is.
type column struct{ Name, Means string }

type row struct {
	Name  string
	Cells []cell
}

// cell has its column's name, which a narrow screen shows beside it.
type cell struct{ Column, Text string }

// WriteHTML writes a page that stands for itself: no script, nothing from a
// network, and a policy that allows neither.
func (r Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	style := pageStyle + plot.Style()
	sum := sha256.Sum256([]byte(style))
	p := page{
		Report:   r,
		Policy:   "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
		Style:    template.HTML("<style>" + style + "</style>"), //nolint:gosec // our own
		Title:    r.title(),
		Traffic:  r.traffic(),
		Right:    r.right(),
		Manner:   r.manner(),
		Verdicts: r.verdicts(),
	}
	for _, drawn := range r.Pictures() {
		p.Pictures = append(p.Pictures, picture{template.HTML(drawn.Inline()), r.caption(drawn)}) //nolint:gosec // plot escapes all texts
	}
	for _, drawn := range r.Lessons() {
		p.Lessons = append(p.Lessons, picture{template.HTML(drawn.Inline()), drawn.Description}) //nolint:gosec // likewise
	}
	var out bytes.Buffer // so that a page is whole or not there
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("fill the page in: %w", err)
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// caption is what stands below a picture: all that is said of it, or where that
// speaks of many limits, which stand in it, what it shows.
func (r Report) caption(p plot.Picture) string {
	if first, _, more := strings.Cut(p.Description, ". "); more && len(r.Result.Trials) > together {
		return first + "."
	}
	return p.Description
}

func (r Report) title() string {
	if len(r.Result.Trials) == 1 {
		return "What " + r.Result.Trials[0].Name + " does to this traffic"
	}
	return fmt.Sprintf("What %d limits do to the same traffic", len(r.Result.Trials))
}

// traffic says what came.
func (r Report) traffic() []string {
	clients := "one client"
	if n := r.Result.Clients; n > 1 {
		clients = number(int64(n)) + " clients, each with a count of its own"
		if r.Result.Shared {
			clients = number(int64(n)) + " clients that share one count"
		}
	}
	return []string{
		fmt.Sprintf("In %s of virtual time %s requests came, of %s.", spell(r.Result.Duration), number(r.Result.Trials[0].Figures.Asked), clients),
		fmt.Sprintf("All chance comes from the seed %d: the same command gives the same figures on every machine.", r.Result.Seed),
	}
}

func (r Report) verdicts() []verdict {
	var out []verdict
	for i := range r.Result.Trials {
		t := &r.Result.Trials[i]
		v := verdict{Name: t.Name, Sentences: r.verdict(t)}
		if t.Naive == "" {
			v.Of = t.Limit.Describe()
		}
		out = append(out, v)
	}
	return out
}

// right is the figures of who was right.
func (r Report) right() table {
	per := "In any " + r.any()
	return r.table("Right or wrong", []figure{
		{"Passed", "requests that were let pass", func(f *sim.Figures) string { return number(f.Passed) }},
		{"Denied", "requests that were not", func(f *sim.Figures) string { return number(f.Denied) }},
		{"Wrongly passed", "let pass although the last period then held more than the count, by an exact log of what this limit let go", func(f *sim.Figures) string { return number(f.WronglyPassed) }},
		{"Wrongly denied", "denied although the last period would have held no more than the count, by the same log", func(f *sim.Figures) string { return number(f.WronglyDenied) }},
		{"Mean error", "how far its count of the last period was off, in events, on average over all requests; – for limits that keep no such count", func(f *sim.Figures) string {
			return believes(f, tenths(f.MeanError))
		}},
		{"Worst error", "the same at worst", func(f *sim.Figures) string { return believes(f, number(f.WorstError)) }},
		{per, "the most events of one key that went in any " + r.any() + ", wherever it begins", func(f *sim.Figures) string { return number(f.WorstPeriod) }},
		{"Bound", "the most that it can be, by proof; – where nothing is proved", func(f *sim.Figures) string { return orDash(f.Bound) }},
	})
}

// manner is the figures of how it was for clients and for what is protected.
func (r Report) manner() table {
	return r.table("What it is like", []figure{
		{"Longest wait", "from a request that did not go at once until that client's next one that did", func(f *sim.Figures) string { return wait(f.LongestWait) }},
		{"Peak load", "the most events that went in a sixtieth of the period, of all clients", func(f *sim.Figures) string { return number(f.PeakLoad) }},
		{"Mean load", "how many went there on average", func(f *sim.Figures) string { return tenths(f.MeanLoad) }},
		{"Late ones starved", "by how much less passes of what comes in the second half of a period than of what comes in the first", func(f *sim.Figures) string { return percent(int64(f.Starved), 1_000_000) }},
		{"Fairness", "Jain's index between clients: 1 when all got the same, 1/n when one of n got all", func(f *sim.Figures) string { return thousandths(f.Jain) }},
		{"Bytes a key", "the largest state of a key, without what the store needs around it; – where it is not known", func(f *sim.Figures) string { return orDash(f.StateBytes) }},
	})
}

func believes(f *sim.Figures, text string) string {
	if !f.Believes {
		return "–"
	}
	return text
}

func orDash(n int64) string {
	if n == 0 {
		return "–"
	}
	return number(n)
}

// figure is a column, and how to read it from a trial.
type figure struct {
	name, means string
	text        func(f *sim.Figures) string
}

func (r Report) table(caption string, figures []figure) table {
	t := table{Caption: caption}
	for _, f := range figures {
		t.Columns = append(t.Columns, column{f.name, f.means})
	}
	for i := range r.Result.Trials {
		trial := &r.Result.Trials[i]
		line := row{Name: trial.Name}
		for _, f := range figures {
			line.Cells = append(line.Cells, cell{f.name, f.text(&trial.Figures)})
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}
