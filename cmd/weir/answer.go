package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// answer is what people are told of the answer of /v1/check.
type answer struct {
	Allowed   bool       `json:"allowed"`
	Decisive  *int       `json:"decisive"`
	Decisions []decision `json:"decisions"`
}

type decision struct {
	Rule       string      `json:"rule"`
	Limit      string      `json:"limit"`
	Outcome    string      `json:"outcome"`
	Remaining  json.Number `json:"remaining"`
	RetryAfter json.Number `json:"retry_after_seconds"` // empty when it does not apply
	Hold       json.Number `json:"hold_seconds"`        // likewise
	Shadow     bool        `json:"shadow"`
}

// printText prints a line for an answer, and one for each decision when there
// are several.
func printText(to io.Writer, _ []byte, a *answer) error {
	var b strings.Builder
	word := "denied"
	if a.Allowed {
		word = "allowed"
	}
	if a.Decisive != nil && *a.Decisive < len(a.Decisions) {
		word = a.Decisions[*a.Decisive].Outcome
	}
	switch len(a.Decisions) {
	case 0:
		fmt.Fprintf(&b, "%-10s  no limit is for this\n", word)
	case 1:
		a.Decisions[0].print(&b, "", len(a.Decisions[0].Rule), len(a.Decisions[0].Limit))
	default:
		fmt.Fprintf(&b, "%s\n", word)
		rule, limit := 0, 0
		for i := range a.Decisions {
			rule, limit = max(rule, len(a.Decisions[i].Rule)), max(limit, len(a.Decisions[i].Limit))
		}
		for i := range a.Decisions {
			a.Decisions[i].print(&b, "  ", rule, limit)
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func (d *decision) print(b *strings.Builder, indent string, rule, limit int) {
	fmt.Fprintf(b, "%s%-10s  %-*s  %-*s  remaining %s", indent, d.Outcome, rule, d.Rule, limit, d.Limit, d.Remaining)
	switch {
	case d.RetryAfter != "":
		fmt.Fprintf(b, "  retry after %s s", d.RetryAfter)
	case d.Outcome == "impossible":
		b.WriteString("  it can never pass")
	case d.Outcome == "denied":
		b.WriteString("  retry when a permit is free")
	}
	if d.Hold != "" && d.Hold != "0" {
		fmt.Fprintf(b, "  go in %s s", d.Hold)
	}
	if d.Shadow {
		b.WriteString("  (shadow: not enforced)")
	}
	b.WriteByte('\n')
}
