package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// class is a known difference: a row of the tables of docs/envoy.md, which says
// what D1 and the others are.
type class struct {
	ID   string `json:"id"`
	Rule string `json:"rule"`
	Seen int    `json:"seen"`
}

// listed reads the known differences out of docs/envoy.md.
func listed(page string) ([]class, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, fmt.Errorf("read the list of known differences: %w", err)
	}
	var all []class
	for _, m := range regexp.MustCompile(`(?m)^\| (D\d+) \| (.*?) \|`).FindAllSubmatch(text, -1) {
		all = append(all, class{ID: string(m[1]), Rule: string(m[2])})
	}
	for _, id := range []string{"D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D13", "D14", "D15", "D19", "D20", "D27", "D28"} {
		if !slices.ContainsFunc(all, func(c class) bool { return c.ID == id }) {
			return nil, fmt.Errorf("%s does not list %s, which this program finds", page, id)
		}
	}
	return all, nil
}

// knownOpinion is the difference for which only one accepts a rule file.
func knownOpinion(peer, ours opinion) string {
	says := func(o opinion, words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(o.text, w) })
	}
	switch {
	case ours.refused && says(ours, "error: duplicate key ", "expected <document start>", "name is a text"):
		return "D19"
	case peer.refused && (says(ours, " has no effect in ") || says(peer, ": error checking config", "yaml: cannot decode")):
		return "D20"
	}
	return ""
}

// reasons are why two answers may differ, by the ids of docs/envoy.md.
type reasons map[string]bool

func (r reasons) add(more reasons) { maps.Copy(r, more) }

// of are those of the reasons that explain a difference in a field.
func (r reasons) of(field string) []string {
	switch field {
	case "error":
		return r.only("D12", "D13")
	case "name", "unit", "requests_per_unit", "current_limit":
		return r.only("D9")
	case "duration_until_reset":
		return r.only("D5", "D9")
	case "metadata":
		return []string{"D15"}
	case "limit_remaining":
		if r["D4"] {
			return []string{"D4"}
		}
	}
	if r["D3"] {
		return []string{"D3"}
	}
	return r.only("D1", "D2", "D6", "D7", "D8", "D9", "D10", "D12", "D13")
}

func (r reasons) only(ids ...string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return !r[id] })
}

// refusal is why Weir refuses a request, or nothing.
func refusal(q *rls.RateLimitRequest) string {
	if unasked(q) {
		return "D12"
	}
	if len(q.GetDescriptors()) > 100 {
		return "D13"
	}
	for _, d := range q.GetDescriptors() {
		switch n := len(d.GetEntries()); {
		case n == 0:
			return "D12"
		case n > 16:
			return "D13"
		}
	}
	for _, d := range q.GetDescriptors() {
		for _, e := range d.GetEntries() {
			switch {
			case e.GetKey() == "":
				return "D12"
			case len(e.GetKey()) > 4096, len(e.GetValue()) > 4096:
				return "D13"
			}
		}
	}
	return ""
}

// unasked is whether both servers refuse a request.
func unasked(q *rls.RateLimitRequest) bool {
	return q.GetDomain() == "" || len(q.GetDescriptors()) == 0
}
