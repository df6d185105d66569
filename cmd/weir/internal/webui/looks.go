package webui

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// looks of pages are read once, each with the frame around it.
func readLooks() (map[string]*template.Template, error) {
	frame, err := template.New("").Funcs(functions()).ParseFS(files, "pages/page.html", "pages/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	looks := map[string]*template.Template{}
	for _, name := range []string{"sign-in", "fault", "domains", "rules", "rule", "new", "new-domain", "deletions", "history", "try", "limited", "unblock", "traffic", "nodes", "inbox", "audit", "backup", "import", "exceptions", "exception", "teams", "tokens", "webhooks"} {
		one, err := frame.Clone()
		if err == nil {
			one, err = one.ParseFS(files, "pages/"+name+".html")
		}
		if err != nil {
			return nil, fmt.Errorf("read the page %s: %w", name, err)
		}
		looks[name] = one
	}
	return looks, nil
}

// functions are those that pages call.
func functions() template.FuncMap {
	return template.FuncMap{
		"digits": digits, "count": func(n int) string { return digits(int64(n)) }, "plain": plain, "prose": prose, "when": whenHere, "whenLines": whenLines, "about": about, "sentence": sentence, "grouped": grouped, "field": newField, "stepping": stepping, "backing": backing, "kind": kindWords, "forming": forming, "kinding": kinding, "titled": titled, "did": did,
		"less": func(n, m int64) int64 { return n - m },
	}
}

// backing is the form on a rule's page that withdraws a version, or sends that of somebody else back; nil: the visitor may not.
func backing(s sheet, x rulestore.Version) map[string]any {
	page, ok := s.Body.(rulePage)
	if !ok || page.Editor == nil {
		return nil
	}
	mine, name := strings.EqualFold(x.Author, s.Who), "Send back version"
	if mine {
		name = "Withdraw version"
	}
	return map[string]any{"Mine": mine, "Author": x.Author, "Step": stepping(page, string(rulestore.Withdrawn), x.Number, name, "")}
}

// stepping is the form on a rule's page for one step. A reason that was sent and refused is in it
// again.
func stepping(page rulePage, to string, version int64, name, class string) map[string]any {
	f := map[string]any{
		"CSRF": page.CSRF, "Domain": page.Domain, "ID": page.ID, "Match": page.Rule.Revision, "Version": version, "To": to, "Class": class,
		"Name": name, "Field": fmt.Sprintf("reason-%s-%d", to, version), "Reason": "", "Fault": "", "Held": false,
	}
	if version > 0 {
		f["Name"] = name + " " + strconv.FormatInt(version, 10)
	}
	if to == "shadow" {
		f["Name"] = name + " " + strconv.FormatInt(version, 10) + " in shadow"
	}
	if page.Step.To == to && page.Step.Version == version {
		f["Reason"], f["Fault"], f["Held"] = page.Step.Reason, page.Step.Faults["reason"], page.Step.Held
	}
	return f
}
