package webui

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-limit/weir/rules"
)

// reading is what a rule's text means.
type reading struct {
	rules    []*rules.Rule
	findings []rules.Finding // in the lines of the text
	above    int             // lines before the text, in what was read
	bad      bool            // an error is among them
}

// readRule reads the text of a rule of a domain, as it stands below head: what
// stands before the domain's first rule. An empty head is the least that is
// needed. check refuses what can't be used here; nil: nothing.
func readRule(domain, head, text string, check func(*rules.Set) error) reading {
	if head == "" {
		head = "domain: " + strconv.Quote(domain) + "\ndescriptors:\n"
	}
	set, err := rules.Parse("rule", []byte(head+strings.ReplaceAll(text, "\r\n", "\n")))
	if err == nil && check != nil {
		err = check(set)
	}
	read := reading{above: strings.Count(head, "\n")}
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		read.findings, read.bad = bad.Findings, true
	} else if err == nil {
		read.rules, read.findings = set.Rules(), set.Warnings()
	}
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	for i := range read.findings {
		f := &read.findings[i]
		f.Line = max(f.Line-read.above, 1)
		if f.Line > len(lines) { // something is missing at the end
			f.Line, f.Column = len(lines), utf8.RuneCountInString(lines[len(lines)-1])+1
		}
	}
	return read
}
