package main

import (
	"fmt"
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

// topView is what weir top shows: two answers of a daemon, and what happened
// between them.
type topView struct {
	daemon        *daemonAt
	before, now   *httpapi.Top // before is nil at first
	away          string       // why there is no newer answer; empty: there is
	width, height int          // of the terminal
}

// text is the whole view, for files and pipes.
func (v *topView) text() string {
	lines := v.lines(usualTop)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// screen draws as much of the view as a terminal has place for over what is
// there, so that nothing flickers.
func (v *topView) screen() string {
	height := max(v.height, 1)
	lines := v.lines(min(max(v.width, 1), mostTop))
	if left := len(lines) - height; left > 0 {
		lines = append(lines[:height-1], fit(fmt.Sprintf("… %d lines more: make the terminal higher, or give --domain, --rule or --n", left+1), v.width))
	}
	return homeCursor + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow
}

// lines is the view in lines of at most width columns.
func (v *topView) lines(width int) []string {
	lines := []string{fit(v.title(), width)}
	if v.away != "" {
		lines = append(lines, fit("no answer, these are old: "+terminal.Escape(v.away), width))
	}
	row := func(name, passed, denied, count string) {
		columns := pad(passed, ratesTop) + pad(denied, ratesTop)
		if width < leastTop {
			columns = ""
		}
		columns += pad(count, countTop)
		place := max(width-len([]rune(columns)), 0)
		name = fit(name, place)
		lines = append(lines, fit(name+strings.Repeat(" ", place-uniseg.StringWidth(name))+columns, width))
	}
	row("RULE, ITS CLIENTS", "PASSED/s", "DENIED/s", "DENIED LATELY")
	for i := range v.now.Rules {
		r := &v.now.Rules[i]
		passed, denied := v.rates(r)
		row(ruleTitle(r), passed, denied, strconv.FormatInt(r.Clients.Denied+r.Clients.Missed, 10))
		for _, c := range r.Clients.Top {
			count := strconv.FormatInt(c.Denied, 10)
			if c.Error > 0 {
				count += " ±" + strconv.FormatInt(c.Error, 10)
			}
			row("  "+clientName(c.Key), "", "", count)
		}
	}
	if len(v.now.Rules) == 0 {
		lines = append(lines, fit("no rule fits; GET /v1/export of the admin listener lists the active ones", width))
	}
	if v.now.Omitted > 0 {
		lines = append(lines, fit(fmt.Sprintf("%d rules more, which deny less: give --domain or --rule", v.now.Omitted), width))
	}
	return lines
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
	return fmt.Sprintf("weir top  %s  %s  %d %s, %d denied lately", v.daemon.host(), v.now.At.Format(time.TimeOnly+" MST"), of, rules, denying)
}

// rates is what a rule passed and denied each second since the answer before.
func (v *topView) rates(r *httpapi.TopRule) (passed, denied string) {
	if v.before == nil {
		return "", ""
	}
	took := v.now.At.Sub(v.before.At)
	for i := range v.before.Rules {
		b := &v.before.Rules[i]
		if b.TrafficRule.Same(r.TrafficRule) && b.Since.Equal(r.Since) && took > 0 {
			return perSecond(r.Passed-b.Passed, took), perSecond(r.Denied-b.Denied, took)
		}
	}
	return "", ""
}

func perSecond(n int64, took time.Duration) string {
	return strconv.FormatFloat(float64(n)/took.Seconds(), 'f', 1, 64)
}

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
