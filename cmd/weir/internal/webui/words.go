package webui

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
)

// limitView is what there is to say of one limit of a rule.
type limitView struct {
	Name      string // of the rule
	Limit     string // its text; empty: unlimited
	Words     string
	Most      string // that passes in one period, and what that means
	WhyMore   string // by how much and why that is more than the count; empty: it is not
	Shadow    bool
	Picture   template.HTML // empty: there is none
	Passed    int64
	Denied    int64
	Unlimited bool
	// Line and Column are where it stands in the text of an editor; 0: it is in none.
	Line, Column int
}

// maxLimits is how many limits of a rule a page describes, and maxListed how many of each rule
// a list has. A page counts the others.
const (
	maxLimits = 50
	maxListed = 8
)

// maxPictures is how many limits of a rule have a picture.
const maxPictures = 6

// limitList is limits of a rule.
type limitList struct {
	Rows []limitView
	More int // that are not shown
}

// listOf describes rules, at most so many, and draws them; pictures is the beginning of their
// names, of which a page has each once. Empty: it draws none.
func listOf(all []*rules.Rule, most int, counts map[string]offenders.Total, pictures string) limitList {
	list := limitList{More: max(len(all)-most, 0)}
	for i, r := range all[:len(all)-list.More] {
		c := counts[r.Name]
		v := limitView{Name: r.Name, Unlimited: r.Unlimited, Shadow: r.Shadow, Passed: c.Passed, Denied: c.Denied}
		if !r.Unlimited {
			v.Limit, v.Words = r.Limit.String(), sentence(grouped(r.Limit.Describe()))
			v.Most, v.WhyMore = mostOf(r.Limit)
			if pictures != "" && i < maxPictures {
				v.Picture = picture(fmt.Sprintf("%s-%d", pictures, i+1), r.Limit)
			}
		}
		list.Rows = append(list.Rows, v)
	}
	return list
}

// mostOf says what a limit lets pass in one period, by single events, and by how much and why that is
// more than its count.
func mostOf(l *weir.Limit) (words, why string) {
	words, why = l.DescribeBound()
	if s := l.Spec(); s.Algorithm != weir.Concurrent {
		words += ", whenever it begins"
		if why != "" {
			why = "that is " + digits(l.Bound(s.Period, 1)-s.Count) + " more than the count: " + why
		}
	}
	if why != "" {
		why = sentence(why)
	}
	return sentence(grouped(words)), why
}

// grouped is words with their whole numbers in groups of three digits.
func grouped(words string) string {
	parts := strings.Split(words, " ")
	for i, part := range parts {
		number := strings.TrimRight(part, ",;")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			parts[i] = digits(n) + part[len(number):]
		}
	}
	return strings.Join(parts, " ")
}

// sentence is words as one.
func sentence(words string) string {
	return upper(strings.TrimSuffix(words, ".")) + "."
}

// field is a field of a form.
type field struct{ ID, Value, Fault string }

func newField(id, value, fault string) field { return field{id, value, fault} }

// clients is a list of them.
type clients struct {
	Title string
	Rows  []shadow.Client
}

func titled(title string, rows []shadow.Client) clients { return clients{title, rows} }

// digits is n in groups of three.
func digits(n int64) string { return plot.Grouped(n, "\u202f") }

// when is an instant as people read it.
func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// whenHere is when for a page, whose script shows it in the zone of its reader.
func whenHere(t time.Time) template.HTML {
	if t.IsZero() {
		return template.HTML(when(t)) //nolint:gosec // it has nothing of a client
	}
	return timeElement(t, when(t))
}

// whenLines is whenHere for a narrow column: the day, and the time below it.
func whenLines(t time.Time) template.HTML {
	return timeElement(t, t.UTC().Format(`<span class="whole">2006-01-02</span> <span class="whole">15:04:05 UTC</span>`))
}

func timeElement(t time.Time, shown string) template.HTML {
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `">` + shown + `</time>`) //nolint:gosec // likewise
}

// about is a time as people need it: rounded up, so that a client that waits that long has waited
// enough.
func about(d time.Duration) string {
	unit := time.Microsecond
	switch {
	case d >= time.Minute:
		unit = time.Second
	case d >= time.Second:
		unit = time.Millisecond
	}
	if rest := d % unit; rest > 0 {
		d += unit - rest
	}
	if d < time.Minute {
		return strings.NewReplacer("µs", " µs", "ms", " ms", "s", " s").Replace(d.String())
	}
	var words []string
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / u.of; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, u.name))
			d %= u.of
		}
	}
	return strings.Join(words, " ")
}

// plain is text without anything that is not seen, or that turns what stands
// beside it round: those characters are written as numbers.
func plain(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "\\x%02x", text[i])
		case r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\u{%X}", r)
		}
	}
	return b.String()
}

// prose is plain text with its lines as they were written.
func prose(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// upper is text with a capital at its beginning.
func upper(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// versionName is how people call a version.
func versionName(n int64) string { return "version " + strconv.FormatInt(n, 10) }
