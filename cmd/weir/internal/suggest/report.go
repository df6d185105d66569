package suggest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/replay"
)

// chosen is which of the marks has the limit that goes into the rule: p99.
const chosen = 2

// Report is the limits that a log suggests.
type Report struct {
	By          []accesslog.Field
	Per         Window
	Suggestions []Suggestion // from the strictest
	Log         replay.LogReport
	// Sampled tells that there were too many clients: percentiles are of a part
	// of them.
	Sampled bool
}

// Suggestion is a limit for clients up to a percentile, and what it would have
// done.
type Suggestion struct {
	Mark           string `json:"suggestion"` // p50, p90, p99 or max
	Peak           int64  `json:"peak"`       // so many clients, in percent, had at most this many requests in any window
	Limit          string `json:"limit"`
	Clients        int64  `json:"clients"`
	ClientsDenied  int64  `json:"clients_denied"` // at least once
	Requests       int64  `json:"requests"`
	RequestsDenied int64  `json:"requests_denied"`
	// More tells that there were more clients than could be kept: those counted
	// are the first.
	More bool `json:"-"`

	count int64
}

// ruleLine is the rule file, as a line of JSON.
type ruleLine struct {
	By    []string `json:"by"`
	Per   Window   `json:"per"`
	Rules string   `json:"rules"`
}

func (r *Report) names() []string {
	var names []string
	for _, f := range r.By {
		names = append(names, f.String())
	}
	return names
}

// Rules is a rule file with the limit of p99, in shadow.
func (r *Report) Rules() string {
	return ruleText(r.By, "["+r.Suggestions[chosen].Limit+"]")
}

// WriteJSON writes a line for each suggestion, one for the rule file, and one for
// the log.
func (r *Report) WriteJSON(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	var lines []any
	for i := range r.Suggestions {
		lines = append(lines, &r.Suggestions[i])
	}
	for _, line := range append(lines, ruleLine{r.names(), r.Per, r.Rules()}, &r.Log) {
		if err := e.Encode(line); err != nil {
			return fmt.Errorf("write suggestions: %w", err)
		}
	}
	return nil
}

// WriteText writes a rule file: what was found as its comments, then the rule.
func (r *Report) WriteText(to io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "CLIENTS\tPEAK IN 1 %s\tCLIENTS DENIED\tSHARE\tREQUESTS DENIED\tSHARE\t  LIMIT\n", strings.ToUpper(string(r.Per)))
	for _, s := range r.Suggestions {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\t  %s\n", s.Mark, s.Peak, s.ClientsDenied, replay.Share(s.ClientsDenied, s.Clients),
			s.RequestsDenied, replay.Share(s.RequestsDenied, s.Requests), s.Limit)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write suggestions: %w", err)
	}
	s := r.Suggestions[chosen]
	fmt.Fprintf(&b, "\n%d requests, clients by %s: %d, from %v to %v\n", s.Requests, strings.Join(r.names(), " and "), s.Clients, r.Log.From, r.Log.To)
	r.Log.WriteNotes(&b)
	if r.Sampled || s.More {
		fmt.Fprintf(&b, "more than %d clients: percentiles are of a sample of them, and denied clients were counted among the first %d\n", maxClients, replay.MaxKeys)
	}
	b.WriteString("\nThe rule of p99, to be tried in shadow:\n")
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	out.WriteString(r.Rules())
	if _, err := io.WriteString(to, out.String()); err != nil {
		return fmt.Errorf("write suggestions: %w", err)
	}
	return nil
}

// ruleText is a rule file with limits for clients, in shadow.
func ruleText(by []accesslog.Field, limits string) string {
	var b strings.Builder
	b.WriteString("domain: suggested\ndescriptors:\n")
	indent := "  "
	for i, f := range by {
		fmt.Fprintf(&b, "%s- key: %v\n", indent, f)
		if i < len(by)-1 {
			fmt.Fprintf(&b, "%s  descriptors:\n", indent)
			indent += "    "
		}
	}
	fmt.Fprintf(&b, "%s  shadow_mode: true # decided and reported, not enforced: take it out when the reports are right\n", indent)
	fmt.Fprintf(&b, "%s  limits: %s\n", indent, limits)
	return b.String()
}
