package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

// The bounds of a view, in columns. A wider line is cut, never wrapped.
const (
	leastTop = 60  // below, there is no place for what passes each second
	usualTop = 100 // of text that is not for a terminal
	mostTop  = 160
	ratesTop = 10 // the columns of what passes and is denied each second
	countTop = 16 // the column of denials
)

// topSort is a column that rules are sorted by.
type topSort int

// topSorts are the columns, as people see them; the first is the order in which the daemon tells.
var topSorts = [...]string{"denied lately", "denied/s", "passed/s", "name"}

// topRule names a rule; the zero value names none.
type topRule struct{ domain, rule string }

// topView is what weir top shows: two answers of a daemon, what happened between them, and what keys have
// made of it.
type topView struct {
	daemon        *daemonAt
	before, now   *httpapi.Top // before is nil at first
	all           bool         // nodes are asked, of clients alone
	away          string       // why there is no newer answer; empty: there is
	note          string       // what else there is to say of the answer
	width, height int          // of the terminal
	colours       bool
	keys          bool // are read; else the rest is zero

	sort       topSort
	filter     string  // only what has it in its name; empty: all
	typing     bool    // the filter
	only       topRule // that was asked for
	chosen     int     // of the rules that are shown
	clientless bool
	paused     bool
	helping    bool
}

// topStyle is how a part of a line looks, as the number of ECMA-48 has it; empty: as all others.
type topStyle string

// The styles.
const (
	stylePlain  topStyle = ""
	styleStrong topStyle = "1"
	styleFaint  topStyle = "2"
	styleChosen topStyle = "7"
	styleDenied topStyle = "31"
	stylePassed topStyle = "32"
	styleWarn   topStyle = "33"
)

// topLine is a line in parts.
type topLine []topPart

type topPart struct {
	text  string
	style topStyle
}

func (l topLine) text() string {
	var b strings.Builder
	for _, part := range l {
		b.WriteString(part.text)
	}
	return b.String()
}

// drawn is the line with control sequences for its styles, with those that are colours if so.
func (l topLine) drawn(colours bool) string {
	var b strings.Builder
	for _, part := range l {
		colour := part.style == styleDenied || part.style == stylePassed || part.style == styleWarn
		if part.style == stylePlain || colour && !colours || strings.TrimSpace(part.text) == "" && part.style != styleChosen {
			b.WriteString(part.text)
			continue
		}
		b.WriteString("\x1b[" + string(part.style) + "m" + part.text + "\x1b[m")
	}
	return b.String()
}

// text is the whole view, for files and pipes.
func (v *topView) text() string {
	lines, _ := v.lines(usualTop)
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line.text(), " ") + "\n")
	}
	return b.String()
}

// screen draws as much of the view as a terminal has place for over what is
// there, so that nothing flickers.
func (v *topView) screen() string {
	width, height := min(max(v.width, 1), mostTop), max(v.height, 1)
	lines, chosen := v.lines(width)
	var foot topLine
	if v.keys && height >= leastFoot {
		foot = topLine{{fit(v.foot(), width), styleFaint}}
		height--
	}
	lines = v.scrolled(lines, chosen, height, width, foot != nil)
	if foot != nil {
		for len(lines) < height {
			lines = append(lines, nil)
		}
		lines = append(lines, foot)
	}
	drawn := make([]string, len(lines))
	for i, line := range lines {
		drawn[i] = line.drawn(v.colours)
	}
	return homeCursor + strings.Join(drawn, clearLine+"\r\n") + clearLine + clearBelow
}

// scrolled is as many lines as there is place for, the title among them, and the one that is chosen where keys choose.
func (v *topView) scrolled(lines []topLine, chosen, height, width int, choosing bool) []topLine {
	left := len(lines) - height
	if left <= 0 {
		return lines
	}
	if !choosing {
		return append(lines[:height-1:height-1], topLine{{fit(fmt.Sprintf("… %d lines more: make the terminal higher, or give --domain, --rule or --n", left+1), width), styleFaint}})
	}
	head := v.heads()
	from := max(min(chosen-head-(height-head)/3, left), 0) // below the chosen rule stand some of its clients
	return append(lines[:head:head], lines[from+head:from+height]...)
}

// leastFoot is the height of a terminal that has place for a foot.
const leastFoot = 6

// foot is what keys do.
func (v *topView) foot() string {
	switch {
	case v.typing:
		return "filter: " + terminal.Escape(v.filter) + "▏  enter keeps it, escape drops it"
	case v.helping:
		return "any key goes back"
	}
	text := "q quit  ? help  space pause  s sort: " + topSorts[v.sort] + "  / filter"
	if v.filter != "" {
		text += ": " + terminal.Escape(v.filter)
	}
	if v.only != (topRule{}) {
		return text + "  escape all rules"
	}
	return text + "  ↑↓ choose  enter only this rule"
}

// heads is how many lines stand above the rules.
func (v *topView) heads() int {
	n := 2
	for _, line := range []string{v.away, v.note} {
		if line != "" {
			n++
		}
	}
	return n
}

// shown are the rules that are shown, in their order.
func (v *topView) shown() []*httpapi.TopRule {
	var rules []*httpapi.TopRule
	for i := range v.now.Rules {
		r := &v.now.Rules[i]
		if v.fits(ruleTitle(r)) || slices.ContainsFunc(r.Clients.Top, func(c httpapi.TopClient) bool { return v.fits(clientName(c.Key)) }) {
			rules = append(rules, r)
		}
	}
	rate := func(r *httpapi.TopRule) float64 {
		passed, denied, ok := v.rates(r)
		switch {
		case !ok:
			return -1
		case topSorts[v.sort] == "passed/s":
			return passed
		}
		return denied
	}
	switch topSorts[v.sort] {
	case "name":
		slices.SortStableFunc(rules, func(a, b *httpapi.TopRule) int { return strings.Compare(a.Rule, b.Rule) })
	case "denied/s", "passed/s":
		slices.SortStableFunc(rules, func(a, b *httpapi.TopRule) int { return cmp.Compare(rate(b), rate(a)) })
	}
	return rules
}

// lines is the view in lines of at most width columns. chosen is that of the chosen rule.
func (v *topView) lines(width int) (lines []topLine, chosen int) {
	lines = []topLine{{{fit(v.title(), width), styleStrong}}}
	if v.away != "" {
		lines = append(lines, topLine{{fit("no answer, these are old: "+terminal.Escape(v.away), width), styleWarn}})
	}
	if v.note != "" {
		lines = append(lines, topLine{{fit(terminal.Escape(v.note), width), styleWarn}})
	}
	if v.helping {
		for _, key := range topHelp {
			lines = append(lines, topLine{{fit(fmt.Sprintf("  %-10s", key[0]), width), styleStrong}, {fit(key[1], max(width-12, 0)), stylePlain}})
		}
		return lines, 0
	}
	row := func(name, passed, denied, count string, styles [4]topStyle) {
		columns := []topPart{{pad(passed, ratesTop), styles[1]}, {pad(denied, ratesTop), styles[2]}, {pad(count, countTop), styles[3]}}
		if width < leastTop {
			columns = columns[2:]
		}
		place := width
		for _, c := range columns {
			place -= len([]rune(c.text))
		}
		if place < 0 {
			lines = append(lines, topLine{{fit(columns[len(columns)-1].text, width), styles[3]}})
			return
		}
		name = fit(name, place)
		lines = append(lines, append(topLine{{name + strings.Repeat(" ", place-uniseg.StringWidth(name)), styles[0]}}, columns...))
	}
	row("RULE, ITS CLIENTS", "PASSED/s", "DENIED/s", "DENIED LATELY", [4]topStyle{styleFaint, styleFaint, styleFaint, styleFaint})
	rules := v.shown()
	for i, r := range rules {
		if v.keys && i == v.chosen {
			chosen = len(lines)
		}
		v.rule(r, v.keys && i == v.chosen, row)
	}
	switch {
	case len(rules) == 0 && len(v.now.Rules) > 0:
		lines = append(lines, topLine{{fit("no rule or client has "+strconv.Quote(terminal.Escape(v.filter))+" in its name", width), styleWarn}})
	case len(rules) == 0 && v.all:
		lines = append(lines, topLine{{fit("no client was denied in the last minute", width), styleFaint}})
	case len(rules) == 0:
		lines = append(lines, topLine{{fit("no rule fits; GET /v1/export of the admin listener lists the active ones", width), styleWarn}})
	}
	if v.now.Omitted > 0 {
		lines = append(lines, topLine{{fit(fmt.Sprintf("%d rules more, which deny less: give --domain or --rule", v.now.Omitted), width), styleFaint}})
	}
	return lines, chosen
}

// rule adds the rows of a rule and of its clients.
func (v *topView) rule(r *httpapi.TopRule, chosen bool, row func(name, passed, denied, count string, styles [4]topStyle)) {
	passed, denied, styles := "", "", [4]topStyle{styleStrong, stylePassed, stylePlain, stylePlain}
	if pass, deny, ok := v.rates(r); ok {
		passed, denied = perSecond(pass), perSecond(deny)
		if deny > 0 {
			styles[2] = styleDenied
		}
	}
	lately := r.Clients.Denied + r.Clients.Missed
	if lately > 0 {
		styles[3] = styleDenied
	}
	if r.Shadow {
		styles[0] = styleFaint
	}
	if chosen {
		styles = [4]topStyle{styleChosen, styleChosen, styleChosen, styleChosen}
	}
	row(ruleTitle(r), passed, denied, strconv.FormatInt(lately, 10), styles)
	if v.clientless {
		return
	}
	whole := v.fits(ruleTitle(r))
	for _, c := range r.Clients.Top {
		if !whole && !v.fits(clientName(c.Key)) {
			continue
		}
		count := strconv.FormatInt(c.Denied, 10)
		if c.Error > 0 {
			count += " ±" + strconv.FormatInt(c.Error, 10)
		}
		row("  "+clientName(c.Key), "", "", count, [4]topStyle{})
	}
}

func (v *topView) title() string {
	denying := 0
	for i := range v.now.Rules {
		if v.now.Rules[i].Clients.Denied > 0 {
			denying++
		}
	}
	of := len(v.now.Rules) + v.now.Omitted
	rules := "rules"
	if of == 1 {
		rules = "rule"
	}
	text := fmt.Sprintf("weir top  %s  %s  %d %s, %d denied lately", v.daemon.host(), v.now.At.Format(time.TimeOnly+" MST"), of, rules, denying)
	if v.paused {
		text += "  paused"
	}
	return text
}

// rates is what a rule passed and denied each second since the answer before. It is not ok where that is not known.
func (v *topView) rates(r *httpapi.TopRule) (passed, denied float64, ok bool) {
	if v.before == nil {
		return 0, 0, false
	}
	took := v.now.At.Sub(v.before.At)
	for i := range v.before.Rules {
		b := &v.before.Rules[i]
		if b.TrafficRule.Same(r.TrafficRule) && b.Since.Equal(r.Since) && took > 0 {
			return float64(r.Passed-b.Passed) / took.Seconds(), float64(r.Denied-b.Denied) / took.Seconds(), true
		}
	}
	return 0, 0, false
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'f', 1, 64) }

func ruleTitle(r *httpapi.TopRule) string {
	title := terminal.Escape(r.Rule)
	if r.Shadow {
		title += " (shadow)"
	}
	title += "  " + r.Limit
	if r.Override != nil {
		title += "  (" + heldWords(r.Override.Percent, r.Override.Until.Format("15:04 MST")) + ")"
	}
	return title
}

func clientName(key string) string {
	if key == "" {
		return `""`
	}
	return terminal.Escape(key)
}

// fit cuts s to so many columns.
func fit(s string, columns int) string {
	if uniseg.StringWidth(s) <= columns {
		return s
	}
	var b strings.Builder
	left := columns - 1
	for g := uniseg.NewGraphemes(s); g.Next() && g.Width() <= left; {
		b.WriteString(g.Str())
		left -= g.Width()
	}
	if columns > 0 {
		b.WriteString("…")
	}
	return b.String()
}

// pad puts s at the right of a column.
func pad(s string, columns int) string {
	return strings.Repeat(" ", max(columns-len([]rune(s)), 1)) + s
}
