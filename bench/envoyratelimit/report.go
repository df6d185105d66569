package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// result is what a run found.
type result struct {
	Seed         uint64    `json:"seed"`
	Peer         string    `json:"envoyproxy_ratelimit"` // its version
	Features     features  `json:"features"`
	Files        int       `json:"files"`
	Refused      int       `json:"files_refused_by_both"`
	Requests     int       `json:"requests"`
	Skipped      int       `json:"streams_cut_short"` // a second ended during a call
	Known        []class   `json:"known"`
	Unclassified int       `json:"unclassified"`
	Statistics   int       `json:"statistics,omitempty"` // that were compared
	Findings     []finding `json:"findings"`

	Measured []measured `json:"measured,omitempty"`
}

// seen counts a known difference.
func (r *result) seen(id string, times int) {
	for i := range r.Known {
		if r.Known[i].ID == id {
			r.Known[i].Seen += times
		}
	}
}

func (r *result) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// text is the result for people.
func (r *result) text() string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "envoyproxy/ratelimit %s, seed %d: %d rule files (%d refused by both), %d requests\n", r.Peer, r.Seed, r.Files, r.Refused, r.Requests)
	for _, f := range []struct {
		there bool
		name  string
	}{
		{r.Features.InnerStar, "* before the end of a value"},
		{r.Features.Quota, "quota_mode that denies when all quotas are over"},
		{r.Features.Metadata, "metadata"},
	} {
		if !f.there {
			fmt.Fprintf(w, "not compared, for this version does not know it: %s\n", f.name)
		}
	}
	if r.Skipped > 0 {
		fmt.Fprintf(w, "%d streams cut short: a second ended during a call\n", r.Skipped)
	}
	fmt.Fprintf(w, "\n%8s  %-4s what docs/envoy.md lists\n", "seen", "id")
	for _, k := range r.Known {
		if k.Seen == 0 {
			continue
		}
		fmt.Fprintf(w, "%8d  %-4s %s\n", k.Seen, k.ID, brief(k.Rule))
	}
	if r.Statistics > 0 {
		fmt.Fprintf(w, "\n%d statistics compared, by name, labels and number\n", r.Statistics)
	}
	fmt.Fprintf(w, "\ndifferences that nothing explains: %d\n", r.Unclassified)
	for i, f := range r.Findings {
		fmt.Fprintf(w, "\n%d.\n  %s\n  rules:\n    %s\n", i+1, strings.Join(f.What, "\n  "), strings.ReplaceAll(strings.TrimRight(f.Rules, "\n"), "\n", "\n    "))
		for _, q := range f.Requests {
			fmt.Fprintf(w, "  request: %s\n", q)
		}
	}
	return w.String()
}

// brief is the first sentence of a rule.
func brief(rule string) string {
	first, _, more := strings.Cut(rule, ". ")
	if more {
		first += "."
	}
	return first
}

func jsonOf(requests []*rls.RateLimitRequest) []string {
	const most = 20 // the last ones tell
	if len(requests) > most {
		requests = requests[len(requests)-most:]
	}
	var all []string
	for _, q := range requests {
		text, err := protojson.Marshal(q)
		if err != nil {
			text = []byte(err.Error())
		}
		all = append(all, string(text))
	}
	return all
}
