package main

import (
	"fmt"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
)

// explanationText is the answer of /v1/explain for people.
func explanationText(e *httpapi.Explanation) string {
	var b strings.Builder
	if e.ID != "" {
		fmt.Fprintf(&b, "%s at %s, as things stood then\n", e.ID, e.At)
	}
	b.WriteString(string(e.Summary) + "\n")
	printPassing(&b, "", e.ExplainedPassing)
	if len(e.Limits) > 1 {
		if e.Together {
			b.WriteString("all or nothing: its limits decide and are charged in one step\n")
		} else {
			b.WriteString("its descriptors are charged one after the other, and given back when one denies: never too much passes, but other requests may be denied meanwhile\n")
		}
	}
	for i := range e.Descriptors {
		d := &e.Descriptors[i]
		b.WriteString("\n")
		for j, entry := range d.Entries {
			if j > 0 {
				b.WriteString(" ")
			}
			b.WriteString(entryText(entry))
		}
		fmt.Fprintf(&b, ": %s\n", d.Summary)
		for j := range d.Levels {
			printLevel(&b, &d.Levels[j])
		}
		for j := range e.Limits {
			if e.Limits[j].Descriptor == i {
				printLimit(&b, &e.Limits[j], e.Decisive != nil && *e.Decisive == j)
			}
		}
	}
	return b.String()
}

func printPassing(b *strings.Builder, indent string, p httpapi.ExplainedPassing) {
	if p.PassesAt != "" {
		fmt.Fprintf(b, "%spasses at %s, in %s s\n", indent, p.PassesAt, p.PassesAfter)
	}
}

func entryText(e httpapi.ExplainedEntry) string {
	if e.Value == "" {
		return string(e.Key)
	}
	return string(e.Key + "=" + e.Value)
}

func placeText(p httpapi.ExplainedPlace) string {
	return fmt.Sprintf("%s (%s:%d)", entryText(p.ExplainedEntry), p.File, p.Line)
}

func printLevel(b *strings.Builder, l *httpapi.ExplainedLevel) {
	if l.Met == nil {
		fmt.Fprintf(b, "  %s meets nothing\n", entryText(l.ExplainedEntry))
	} else {
		fmt.Fprintf(b, "  %s meets %s: %s\n", entryText(l.ExplainedEntry), placeText(*l.Met), l.Why)
	}
	for _, p := range l.PassedOver {
		fmt.Fprintf(b, "    passed over: %s\n", placeText(p))
	}
	for _, p := range l.There {
		fmt.Fprintf(b, "    there is: %s\n", placeText(p))
	}
	if l.Omitted > 0 {
		fmt.Fprintf(b, "    and %d more\n", l.Omitted)
	}
}

func printLimit(b *strings.Builder, l *httpapi.ExplainedLimit, decisive bool) {
	fmt.Fprintf(b, "  %s  %s  %s", l.Outcome, l.Rule, l.Limit)
	if decisive {
		b.WriteString("  (decisive)")
	}
	if !l.Enforced {
		b.WriteString("  (not enforced)")
	}
	b.WriteString("\n    " + string(l.Words))
	if l.Most != nil {
		fmt.Fprintf(b, "; %d at most in any one period", *l.Most)
		if l.WhyMore != "" {
			fmt.Fprintf(b, ": %s", l.WhyMore)
		}
	}
	fmt.Fprintf(b, "\n    cost %d\n", l.Cost)
	fmt.Fprintf(b, "    before: %s\n    after:  %s\n", standingText(&l.Before), standingText(&l.After))
	printPassing(b, "    ", l.ExplainedPassing)
	for _, n := range l.Notes {
		fmt.Fprintf(b, "    %s\n", n)
	}
}

func standingText(s *httpapi.ExplainedStanding) string {
	return fmt.Sprintf("%d used, %d remaining, as never used in %s s", s.Used, s.Remaining, s.Reset)
}
