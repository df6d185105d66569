package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// explanation is what people are told of the answer of /v1/explain.
type explanation struct {
	ID          string `json:"id"` // of a denial; else empty
	Then        string `json:"at"`
	Summary     string `json:"summary"`
	Together    bool   `json:"together"`
	Decisive    *int   `json:"decisive"`
	Descriptors []struct {
		Entries []explainedEntry `json:"entries"`
		Summary string           `json:"summary"`
		Levels  []explainedLevel `json:"levels"`
	} `json:"descriptors"`
	Limits []explainedLimit `json:"limits"`
	passing
}

// passing is when something passes.
type passing struct {
	Passes string      `json:"passes"`
	After  json.Number `json:"passes_after_seconds"` // empty when it does not apply
	At     string      `json:"passes_at"`            // likewise
}

type explainedEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// explainedPlace is a descriptor of a rule file.
type explainedPlace struct {
	explainedEntry

	File string `json:"file"`
	Line int    `json:"line"`
}

type explainedLevel struct {
	explainedEntry

	Met        *explainedPlace  `json:"met"`
	Why        string           `json:"why"`
	PassedOver []explainedPlace `json:"passed_over"`
	There      []explainedPlace `json:"there"`
	Omitted    int              `json:"omitted"`
}

type explainedLimit struct {
	Descriptor int               `json:"descriptor"`
	Rule       string            `json:"rule"`
	File       string            `json:"file"`
	Line       int               `json:"line"`
	Limit      string            `json:"limit"`
	Words      string            `json:"words"`
	Most       json.Number       `json:"most_in_a_period"` // empty when nothing is promised
	Outcome    string            `json:"outcome"`
	Enforced   bool              `json:"enforced"`
	Cost       json.Number       `json:"cost"`
	Before     explainedStanding `json:"before"`
	Next       explainedStanding `json:"after"`
	Notes      []string          `json:"notes"`
	passing
}

type explainedStanding struct {
	Used      json.Number `json:"used"`
	Remaining json.Number `json:"remaining"`
	Reset     json.Number `json:"reset_after_seconds"`
}

// text is the explanation for people.
func (e *explanation) text() string {
	var b strings.Builder
	if e.ID != "" {
		fmt.Fprintf(&b, "%s at %s, as things stood then\n", e.ID, e.Then)
	}
	b.WriteString(e.Summary + "\n")
	e.passing.print(&b, "")
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
			b.WriteString(entry.String())
		}
		fmt.Fprintf(&b, ": %s\n", d.Summary)
		for j := range d.Levels {
			d.Levels[j].print(&b)
		}
		for j := range e.Limits {
			if e.Limits[j].Descriptor == i {
				e.Limits[j].print(&b, e.Decisive != nil && *e.Decisive == j)
			}
		}
	}
	return b.String()
}

func (p *passing) print(b *strings.Builder, indent string) {
	if p.At != "" {
		fmt.Fprintf(b, "%spasses at %s, in %s s\n", indent, p.At, p.After)
	}
}

func (e explainedEntry) String() string {
	if e.Value == "" {
		return e.Key
	}
	return e.Key + "=" + e.Value
}

func (p explainedPlace) String() string {
	return fmt.Sprintf("%s (%s:%d)", p.explainedEntry, p.File, p.Line)
}

func (l *explainedLevel) print(b *strings.Builder) {
	if l.Met == nil {
		fmt.Fprintf(b, "  %s meets nothing\n", l.explainedEntry)
	} else {
		fmt.Fprintf(b, "  %s meets %s: %s\n", l.explainedEntry, l.Met, l.Why)
	}
	for _, p := range l.PassedOver {
		fmt.Fprintf(b, "    passed over: %s\n", p)
	}
	for _, p := range l.There {
		fmt.Fprintf(b, "    there is: %s\n", p)
	}
	if l.Omitted > 0 {
		fmt.Fprintf(b, "    and %d more\n", l.Omitted)
	}
}

func (l *explainedLimit) print(b *strings.Builder, decisive bool) {
	fmt.Fprintf(b, "  %s  %s  %s", l.Outcome, l.Rule, l.Limit)
	if decisive {
		b.WriteString("  (decisive)")
	}
	if !l.Enforced {
		b.WriteString("  (not enforced)")
	}
	b.WriteString("\n    " + l.Words)
	if l.Most != "" {
		fmt.Fprintf(b, "; %s at most in any one period", l.Most)
	}
	fmt.Fprintf(b, "\n    cost %s\n", l.Cost)
	fmt.Fprintf(b, "    before: %s\n    after:  %s\n", &l.Before, &l.Next)
	l.passing.print(b, "    ")
	for _, n := range l.Notes {
		fmt.Fprintf(b, "    %s\n", n)
	}
}

func (s *explainedStanding) String() string {
	return fmt.Sprintf("%s used, %s remaining, as never used in %s s", s.Used, s.Remaining, s.Reset)
}
