package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/rules"
)

// importing is what weir rules plan and apply are told.
type importing struct {
	addr             address
	to, team, reason string
	force, asJSON    bool
}

func (o *importing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.addr.rulesFlags(f)
	f.StringVar(&o.to, "to", "shadow", "how far the changes go, a `STATE`: "+theValues)
	choice(cmd, "to", "draft", "shadow", "enforced")
	f.StringVar(&o.team, "team", "", "`TEAM` that owns a domain which is not there yet")
	f.BoolVar(&o.asJSON, "json", false, "print what the daemon answers, a JSON object for each file")
}

func rulesPlanCommand() *cobra.Command {
	var o importing
	cmd := &cobra.Command{
		Use:   "plan PATH",
		Short: "Tell what apply would change, and change nothing",
		Long: `Tell what weir rules apply would change: for each rule file, or each in a folder,
the rules of its domain that would be made, replaced, moved or taken away, with
what differs. The daemon checks the files and whether this token may; nothing
is changed. With --to enforced it also says what would be refused: too many
denials, or a domain under review, where a second person has to enforce it.

It exits 0 when nothing would change, 1 when something would, and 2 when a file
is wrong.`,
		Example: `  weir rules plan rules/
  weir rules plan --to enforced rules/shop.yaml
  weir rules plan --addr https://weir.example:8082 --ca ca.pem --token-file token rules/`,
		Args: wanted("PATH"),
	}
	o.flags(cmd)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		o.reason = "a plan"
		_, list, err := o.planned(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		changes := false
		for i := range list {
			changes = changes || list[i].differs()
			if err := list[i].print(cmd.OutOrStdout(), o.asJSON, list[i].plan()); err != nil {
				return err
			}
		}
		if changes {
			return &failure{code: exitNo}
		}
		return nil
	})
	return cmd
}

func rulesApplyCommand() *cobra.Command {
	var o importing
	cmd := &cobra.Command{
		Use:   "apply PATH --reason TEXT",
		Short: "Make domains what rule files say",
		Long: `Make domains what rule files say: of each domain that a file is of, the rules that
differ are made, replaced, moved or taken away, all or none. Other domains stay
as they are. First all files are planned, and when one is refused nothing is
changed; a domain that another author changes meanwhile is refused, and no
change is lost.

Changes run in shadow at first: decided and reported beside the active rules,
and not enforced. The same again with --to enforced makes them active, unless
the daemon has seen that they would deny much more than now, or has seen too
little to tell; --force overrules that. With --to draft they do nothing yet.`,
		Example: `  weir rules apply --reason "checkout needs less" rules/
  weir rules apply --to enforced --reason "shadow denied no client" rules/
  weir rules apply --team shop --reason "our first rules" shop.yaml`,
		Args: wanted("PATH"),
	}
	o.flags(cmd)
	reasonFlag(cmd, &o.reason)
	forceFlag(cmd, &o.force)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if o.reason == "" && o.to != "draft" {
			return usagef("say why, for readers of the history: --reason TEXT")
		}
		api, list, err := o.planned(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return o.apply(cmd.Context(), api, list, cmd.OutOrStdout())
	})
	return cmd
}

// ruleFile is a rule file, and what it does to its domain.
type ruleFile struct {
	name, domain string
	text         []byte
	etag         string // of the domain as it was seen; empty: there is none
	answer       importAnswer
	team         string // of the domain, with the import
	revision     int64
	changes      []ruleapi.Change
	refused      string // why it would be refused; empty: it would not
	forcible     bool   // --force overrides that
}

// importAnswer is what the daemon says of an import, as it came.
type importAnswer struct {
	File    string          `json:"file"` // of which it is
	Domain  json.RawMessage `json:"domain"`
	Changes json.RawMessage `json:"changes"`
	Refused string          `json:"refused,omitempty"`
	Force   *bool           `json:"force,omitempty"`
}

// planned reads the rule files at a path, and asks what they would change.
func (o *importing) planned(ctx context.Context, path string) (*ruleAPI, []ruleFile, error) {
	if !slices.Contains([]string{"draft", "shadow", "enforced"}, o.to) {
		return nil, nil, usagef("--to %s: write draft, shadow or enforced", o.to)
	}
	list, err := readRuleFiles(path)
	if err != nil {
		return nil, nil, err
	}
	api, err := o.addr.rules()
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for i := range list {
		errs = append(errs, o.ask(ctx, api, &list[i], true))
		if ctx.Err() != nil {
			break
		}
	}
	return api, list, firstOf(errs)
}

// firstOf is one failure of several, with the exit code of the first.
func firstOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return &failure{exitCode(errs[0]), errors.Join(errs...)}
}

// readRuleFiles reads the rule files at a path, each with the domain it is of.
func readRuleFiles(path string) ([]ruleFile, error) {
	if _, err := rules.Load(path); err != nil { // tells all that is wrong with them together
		return nil, err
	}
	names, err := rules.Files(path)
	if err != nil {
		return nil, err
	}
	var list []ruleFile
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set, err := rules.Parse(name, text)
		if err != nil {
			return nil, err
		}
		list = append(list, ruleFile{name: name, domain: set.Domains()[0], text: text})
	}
	return list, nil
}

// ask puts a file in the place of a domain, or with dry asks what that would do
// to the domain as it is now.
func (o *importing) ask(ctx context.Context, api *ruleAPI, f *ruleFile, dry bool) error {
	query := url.Values{"to": {o.to}}
	set := func(key, value string) {
		if value != "" {
			query.Set(key, value)
		}
	}
	set("reason", o.reason)
	set("team", o.team)
	if o.force {
		set("force", "true")
	}
	if dry {
		set("dry_run", "true")
		if err := o.see(ctx, api, f); err != nil {
			return err
		}
	}
	answer, err := api.call(ctx, ruleCall{
		method: http.MethodPut, path: []string{"domains", f.domain, "file"}, query: query,
		body: f.text, yaml: true, match: f.etag, fresh: f.etag == "",
	})
	if err != nil {
		return f.failed(err)
	}
	return f.heed(answer)
}

// heed takes over what the daemon says of the import.
func (f *ruleFile) heed(answer *ruleAnswer) error {
	f.answer = importAnswer{}
	if err := answer.into(&f.answer); err != nil {
		return err
	}
	f.refused, f.forcible = f.answer.Refused, f.answer.Force != nil && *f.answer.Force
	var said struct {
		Domain struct {
			Team     string
			Revision int64
		}
		Changes []ruleapi.Change
	}
	err := answer.into(&said)
	f.team, f.revision, f.changes = said.Domain.Team, said.Domain.Revision, said.Changes
	return err
}

// see finds how the domain of a file is now.
func (o *importing) see(ctx context.Context, api *ruleAPI, f *ruleFile) error {
	answer, err := api.call(ctx, ruleCall{method: http.MethodGet, path: []string{"domains", f.domain}})
	if p := problem(err); p != nil && p.Status == http.StatusNotFound {
		if o.team == "" {
			return usagef("%s: there is no domain %s yet; say which team it belongs to: --team TEAM", f.name, f.domain)
		}
		return nil
	}
	if err != nil {
		return f.failed(err)
	}
	f.etag = answer.etag // none: it comes from files, and is refused with the reason
	return nil
}

// failed says which file an error is about.
func (f *ruleFile) failed(err error) error {
	p := problem(err)
	if p == nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	p.file = f.name
	if len(p.Findings) > 0 {
		return err // its lines begin with the file
	}
	return &failure{p.code(), fmt.Errorf("%s: %w", f.name, err)}
}

// differs is whether the file changes anything, or would if it were not refused.
func (f *ruleFile) differs() bool { return f.etag == "" || len(f.changes) > 0 || f.refused != "" }

// apply applies files that are planned, each whole or not at all.
func (o *importing) apply(ctx context.Context, api *ruleAPI, list []ruleFile, out io.Writer) error {
	var errs []error
	for i := range list {
		if why := list[i].refused; why != "" {
			way := "with --to shadow it runs beside the active rules"
			if list[i].forcible {
				way = "here by --force"
			}
			errs = append(errs, &failure{exitFail, fmt.Errorf("%s: refused: %s; %s", list[i].name, why, way)})
		}
	}
	if len(errs) > 0 {
		return firstOf(errs)
	}
	for i := range list {
		f := &list[i]
		text := fmt.Sprintf("domain %s: nothing to change (%s)\n", f.domain, f.name)
		if f.differs() {
			if err := o.ask(ctx, api, f, false); err != nil {
				return firstOf([]error{err, unapplied(list[i:])})
			}
			text = f.applied(o.to)
		}
		if err := f.print(out, o.asJSON, text); err != nil {
			return err
		}
	}
	return nil
}

// unapplied names what was left out.
func unapplied(list []ruleFile) error {
	var names []string
	for i := range list {
		names = append(names, list[i].domain)
	}
	return fmt.Errorf("not applied: %s; run it again when that is mended", strings.Join(names, ", "))
}

func (f *ruleFile) print(out io.Writer, asJSON bool, text string) error {
	if asJSON {
		f.answer.File = f.name
		line, err := json.Marshal(f.answer)
		if err != nil {
			return err
		}
		text = string(line) + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// plan says what would be done, with what differs.
func (f *ruleFile) plan() string {
	if !f.differs() {
		return fmt.Sprintf("domain %s: nothing to change (%s)\n", f.domain, f.name)
	}
	var b strings.Builder
	made := ""
	if f.etag == "" {
		made = "to be made for team " + f.team + ", "
	}
	what := made + many(len(f.changes), "change")
	if made == "" && len(f.changes) == 0 {
		what = "in shadow already"
	}
	fmt.Fprintf(&b, "domain %s: %s (%s)\n", f.domain, what, f.name)
	for _, c := range f.changes {
		fmt.Fprintf(&b, "  %s %s\n%s", c.Action, ruleName(c.Rule), indented(c.Diff))
	}
	if f.refused != "" {
		fmt.Fprintf(&b, "  would be refused: %s\n", f.refused)
	}
	return b.String()
}

// applied says what was done.
func (f *ruleFile) applied(to string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain %s: %s, %s at revision %d (%s)\n", f.domain, many(len(f.changes), "change"), stateWords(to), f.revision, f.name)
	for _, c := range f.changes {
		fmt.Fprintf(&b, "  %s %s: version %d\n", c.Action, ruleName(c.Rule), c.Version)
	}
	return b.String()
}

// stateWords is what a state means.
func stateWords(state string) string {
	switch state {
	case "shadow":
		return "in shadow beside the active rules"
	case "draft":
		return "kept as drafts"
	}
	return "active"
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ruleName is a rule's ID for people.
func ruleName(id string) string {
	if id == "" {
		return "(before the first rule)"
	}
	return terminal.Escape(id)
}

// indented is a diff without its names, below a rule.
func indented(diff string) string {
	var b strings.Builder
	_, diff, _ = strings.Cut(diff, "\n+++ after\n")
	for line := range strings.Lines(diff) {
		b.WriteString("    " + terminal.Escape(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
