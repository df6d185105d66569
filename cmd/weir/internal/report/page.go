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

	"github.com/weir-limit/weir/cmd/weir/internal/plot"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// page is what page.html shows, which calls the methods of a report.
type page struct {
	Report
	Policy string        // of its content
	Style  template.HTML // the element
}

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
		Report: r,
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
		Style:  template.HTML("<style>" + style + "</style>"), //nolint:gosec // our own
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

// Drawn is a picture as an element of the page.
func (page) Drawn(p plot.Picture) template.HTML {
	return template.HTML(p.Inline()) //nolint:gosec // plot escapes all texts
}

// Caption is what stands below a picture: all that is said of it, or where that
// speaks of many limits, which stand in it, what it shows.
func (r Report) Caption(p plot.Picture) string {
	if first, _, more := strings.Cut(p.Description, ". "); more && len(r.Result.Trials) > together {
		return first + "."
	}
	return p.Description
}

// Title says what was compared.
func (r Report) Title() string {
	if len(r.Result.Trials) == 1 {
		return "What " + r.Result.Trials[0].Name + " does to this traffic"
	}
	return fmt.Sprintf("What %d limits do to the same traffic", len(r.Result.Trials))
}

// Traffic says what came.
func (r Report) Traffic() []string {
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
