package webui

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// editor is the form that proposes a version.
type editor struct {
	Domain, ID   string // no ID: a new rule
	Text, Reason string
	Match        int64 // Rule.Revision that was seen; 0: a new rule
	CSRF         string
	Preview      preview
	Faults       map[string]string // what is wrong, by the field; of no field in particular: ""
	// Late is what the text changes of the newest version, when somebody has changed
	// the rule in between; sent again, it does.
	Late []diffLine
}

// Most is the bytes of a text that an editor takes.
func (e *editor) Most() int { return rulestore.MaxText }

// Rows is how high the field of the text is, in lines.
func (e *editor) Rows() int { return min(max(strings.Count(e.Text, "\n")+2, 10), 24) }

// Excerpt is the lines of the text that something is said of, with what is said beneath each.
func (e *editor) Excerpt() []sourceLine { return excerpt(e.Text, e.Preview.findings) }

// preview is what a text means.
type preview struct {
	reading

	Limits limitList
	Empty  bool // there is no text
}

// Findings is what there is to say of the text.
func (p preview) Findings() []rules.Finding { return p.findings }

// Bad is whether the text is refused.
func (p preview) Bad() bool { return p.bad }

// Said is in short what there is to say of the text, for people who don't see the page change.
func (p preview) Said() string {
	errors, warnings, first := 0, 0, 0
	for _, f := range p.findings {
		switch {
		case f.Severity == rules.SeverityWarning:
			warnings++
		case errors == 0:
			first = f.Line
			fallthrough
		default:
			errors++
		}
	}
	var said []string
	switch {
	case p.Empty:
		return "There is no rule yet."
	case errors > 0:
		said = append(said, fmt.Sprintf("%s, the first in line %d", counted(errors, "error", "errors"), first))
	default:
		said = append(said, "No error", counted(len(p.rules), "limit", "limits"))
	}
	if warnings > 0 {
		said = append(said, counted(warnings, "warning", "warnings"))
	}
	return strings.Join(said, ", ") + "."
}

func (v *visit) newEditor(at place, text string, match int64) *editor {
	return &editor{Domain: at.domain, ID: at.id, Text: text, Match: match, CSRF: v.csrf(), Preview: v.preview(at.domain, text)}
}

// preview reads a text as it would stand in the domain.
func (v *visit) preview(domain, text string) preview {
	if strings.TrimSpace(text) == "" {
		return preview{Empty: true}
	}
	head := ""
	if frame, err := v.store.Rule(v.r.Context(), domain, rulestore.Frame); err == nil {
		head = frame.Text
	}
	p := preview{reading: readRule(domain, head, text, v.pages.options.Check)}
	p.Limits = listOf(p.rules, maxLimits, nil, "draft")
	for i := range p.Limits.Rows {
		l := &p.Limits.Rows[i]
		l.Line, l.Column = p.rules[i].LimitAt()
		l.Line -= p.above
	}
	return p
}

// sourceLine is a line of a text.
type sourceLine struct {
	Number   int
	Text     string
	Findings []rules.Finding
	Gap      bool // lines before it are left out
}

// around is how many lines stand before and behind one that something is said of.
const around = 3

// excerpt is the lines that something is said of, and those around them.
func excerpt(text string, said []rules.Finding) (lines []sourceLine) {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	at := map[int][]rules.Finding{}
	near := map[int]bool{}
	for _, f := range said {
		at[f.Line] = append(at[f.Line], f)
		for i := f.Line - around; i <= f.Line+around; i++ {
			near[i] = true
		}
	}
	for i, line := range all {
		if n := i + 1; near[n] {
			lines = append(lines, sourceLine{n, line, at[n], n > 1 && !near[i]})
		}
	}
	return lines
}

// look answers what the text of an editor means, while somebody writes it.
func (p *Pages) look(v *visit) error {
	return v.write(http.StatusOK, "rule", "look", v.preview(v.r.PostFormValue("domain"), v.r.PostFormValue("text")))
}

// newRule shows an empty editor for a domain.
func (p *Pages) newRule(v *visit) error {
	d, err := v.store.Domain(v.r.Context(), v.query("domain"))
	if err != nil {
		return err
	}
	const first = "- key: user\n  limits: [10/s burst 20]\n"
	return v.show(http.StatusOK, "new", "New rule", v.newEditor(place{domain: d.Name}, first, 0))
}

// propose takes what was written in an editor.
func (p *Pages) propose(v *visit) error {
	form := v.r.PostFormValue
	text := strings.ReplaceAll(form("text"), "\r\n", "\n")
	e := v.newEditor(place{form("domain"), form("rule")}, text, v.number("match"))
	e.Reason = strings.ReplaceAll(form("reason"), "\r\n", "\n")
	to := rulestore.State(form("to"))
	if to == "check" {
		return v.showEditor(http.StatusOK, e)
	}
	if to != rulestore.Draft && to != rulestore.Shadow {
		return &fault{http.StatusBadRequest, "A version is saved as a draft or runs in shadow; send it from the rule's page."}
	}
	if e.Preview.Empty {
		e.Faults = map[string]string{"text": "Write the rule. To take a rule away there is a form below it."}
		return v.showEditor(http.StatusBadRequest, e)
	}
	made, err := p.options.Changes.Propose(v.r.Context(), v.store, v.actor, rulestore.Proposal{
		Domain: e.Domain, Rule: e.ID, Text: e.Text, Match: e.Match, To: to, Reason: e.Reason,
	})
	if err != nil {
		if e.Faults = faultsOf(err); e.Faults == nil {
			return err
		}
		if kindOf(err) == rulestore.Stale && e.ID != "" {
			if err := v.late(e); err != nil {
				return err
			}
		}
		return v.showEditor(statusOf(err), e)
	}
	said := fmt.Sprintf("Version %d is saved as a draft.", made.Number)
	if to == rulestore.Shadow {
		said = fmt.Sprintf("Version %d runs in shadow: it is decided and reported, and denies no client.", made.Number)
	}
	return v.see(place{made.Domain, made.Rule}.at("rule"), said)
}

// late makes an editor one of the rule as it is now, and keeps what was written.
func (v *visit) late(e *editor) error {
	r, err := v.store.Rule(v.r.Context(), e.Domain, e.ID)
	if err != nil {
		return err
	}
	now := rulestore.Version{}
	if newest := cmp.Or(r.Draft, r.Shadow, r.Enforced); newest > 0 {
		if now, err = v.store.Version(v.r.Context(), e.Domain, e.ID, newest); err != nil {
			return err
		}
	}
	e.Match, e.Late = r.Revision, compare(now.Text, e.Text)
	e.Faults = map[string]string{"": "Another author has changed this rule in the meantime. Below is what your text changes now; send it again if that is what you mean."}
	return nil
}

func (v *visit) showEditor(status int, e *editor) error {
	if e.ID == "" {
		return v.show(status, "new", "New rule", e)
	}
	return v.showRule(status, place{e.Domain, e.ID}, forms{editor: e})
}
