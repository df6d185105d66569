package webui

import (
	"errors"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// reading is what a rule's text means.
type reading struct {
	rules    []*rules.Rule
	findings []rules.Finding // in the lines of the text
	bad      bool            // an error is among them
}

// readRule reads the text of a rule of a domain, as it stands below head: what
// stands before the domain's first rule. An empty head is the least that is
// needed. check refuses what can't be used here; nil: nothing.
func readRule(domain, head, text string, check func(*rules.Set) error) reading {
	if head == "" {
		head = "domain: " + strconv.Quote(domain) + "\ndescriptors:\n"
	}
	above := strings.Count(head, "\n")
	set, err := rules.Parse("rule", []byte(head+strings.ReplaceAll(text, "\r\n", "\n")))
	if err == nil && check != nil {
		err = check(set)
	}
	var read reading
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		read.findings, read.bad = bad.Findings, true
	} else if err == nil {
		read.rules, read.findings = set.Rules(), set.Warnings()
	}
	for i := range read.findings {
		f := &read.findings[i]
		f.Line = max(f.Line-above, 1)
	}
	return read
}
