package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func rulesListCommand() *cobra.Command {
	var addr address
	var team, state, search string
	var gone, asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list [DOMAIN]",
		Short: "List rules, with their teams and versions",
		Example: `  weir rules list
  weir rules list --state shadow shop
  weir rules list --team shop --json | jq -r .id`,
		Args: atMost("DOMAIN"),
	}
	f := cmd.Flags()
	addr.rulesFlags(f)
	f.StringVar(&team, "team", "", "rules of this `TEAM` only")
	f.StringVar(&state, "state", "", "rules with a version in this `STATE` only: "+theValues+"; proposed: none was active")
	choice(cmd, "state", "proposed", "draft", "shadow", "enforced", "disabled")
	f.StringVar(&search, "search", "", "rules whose ID or domain has this `TEXT` in it only")
	f.BoolVar(&gone, "gone", false, "also rules that were taken away")
	f.BoolVar(&asJSON, "json", false, "print a JSON object for each rule, one a line")
	noHeadersFlag(f, &noHeaders)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		q := url.Values{}
		for key, value := range map[string]string{"team": team, "state": state, "search": search, "domain": strings.Join(args, "")} {
			if value != "" {
				q.Set(key, value)
			}
		}
		if gone {
			q.Set("gone", "true")
		}
		return listStored(cmd.Context(), cmd.OutOrStdout(), api, q, asJSON, noHeaders)
	})
	return cmd
}

// listStored prints the rules that a query finds.
func listStored(ctx context.Context, out io.Writer, api *ruleAPI, q url.Values, asJSON, noHeaders bool) error {
	list := newListing(out, noHeaders, "DOMAIN", "RULE", "TEAM", "STATE", "VERSIONS")
	return api.pages(ctx, ruleCall{method: http.MethodGet, path: []string{"rules"}, query: q}, "after", func(a *ruleAnswer) error {
		var page struct{ Rules []json.RawMessage }
		if err := a.into(&page); err != nil {
			return err
		}
		for _, line := range page.Rules {
			if asJSON {
				if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
					return err
				}
				continue
			}
			var r ruleapi.Rule
			if err := json.Unmarshal(line, &r); err != nil {
				return err
			}
			list.row(terminal.Escape(r.Domain), ruleName(r.ID), terminal.Escape(r.Team), stateOf(&r), versionsOf(&r))
		}
		return list.flush()
	})
}

// stateOf is the state of a rule, and how it is opened or tightened at present.
func stateOf(r *ruleapi.Rule) string {
	if r.Override == nil {
		return r.State
	}
	state := r.State + ", " + heldWords(r.Override.Percent, r.Override.Until.UTC().Format(time.RFC3339))
	if r.Override.Unreviewed {
		state += ", unreviewed"
	}
	return state
}

func rulesGetCommand() *cobra.Command {
	var addr address
	var version int64
	var inForce, asJSON bool
	cmd := &cobra.Command{
		Use:   "get DOMAIN [RULE]",
		Short: "Print the file of a domain, or one rule, as it was written",
		Long: `Print the active file of a domain, without what open and tighten do to it, or one
rule. weir rules apply takes the file back.`,
		Example: `  weir rules get shop > rules/shop.yaml
  weir rules get --in-force shop
  weir rules get --version 3 shop user`,
		Args: anyTarget,
	}
	f := cmd.Flags()
	addr.rulesFlags(f)
	f.Int64Var(&version, "version", 0, "`NUMBER` of a version of the rule (default: the active one, else the newest)")
	f.BoolVar(&inForce, "in-force", false, "limits as open and tighten make them now")
	f.BoolVar(&asJSON, "json", false, "print what the daemon knows of it as JSON")
	cmd.MarkFlagsMutuallyExclusive("version", "in-force")
	cmd.MarkFlagsMutuallyExclusive("json", "in-force")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		t := target(args)
		switch {
		case t.rule == "" && version != 0:
			return usagef("--version is of a rule: weir rules get --version %d %s RULE", version, t.domain)
		case t.rule != "" && inForce:
			return usagef("--in-force is of a whole domain: weir rules get --in-force %s", t.domain)
		}
		return getStored(cmd.Context(), cmd.OutOrStdout(), api, t, version, inForce, asJSON)
	})
	return cmd
}

func getStored(ctx context.Context, out io.Writer, api *ruleAPI, t ruleTarget, version int64, inForce, asJSON bool) error {
	c := ruleCall{method: http.MethodGet, path: t.path()}
	switch {
	case t.rule == "" && !asJSON:
		c.path = t.path("file")
		if inForce {
			c.query = url.Values{"in_force": {"true"}}
		}
	case version != 0:
		c.path = t.path("versions", strconv.FormatInt(version, 10))
	}
	answer, err := api.call(ctx, c)
	if err != nil {
		return err
	}
	body := answer.body
	if t.rule != "" && !asJSON {
		var said struct{ Text string }
		if err := answer.into(&said); err != nil {
			return err
		}
		body = []byte(said.Text)
	}
	_, err = out.Write(body)
	return err
}

func rulesHistoryCommand() *cobra.Command {
	var addr address
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "history DOMAIN RULE",
		Short:   "List the versions of a rule, and what was done to it",
		Long:    `List the versions of a rule, the newest first: number, state, when, by whom and why. Below stands what was done to the rule, and what was refused.`,
		Example: `  weir rules history shop user`,
		Args:    exactTarget,
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the daemon answers, a JSON object for each page of versions")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		return printHistory(cmd.Context(), cmd.OutOrStdout(), api, target(args), asJSON)
	})
	return cmd
}

func printHistory(ctx context.Context, out io.Writer, api *ruleAPI, t ruleTarget, asJSON bool) error {
	var events []rulestore.Event // the same with each page
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	err := api.pages(ctx, ruleCall{method: http.MethodGet, path: t.path("history"), query: url.Values{}}, "before", func(a *ruleAnswer) error {
		if asJSON {
			_, err := out.Write(a.body)
			return err
		}
		var page struct {
			Versions []rulestore.Version
			Events   []rulestore.Event
		}
		if err := a.into(&page); err != nil {
			return err
		}
		for _, v := range page.Versions {
			fmt.Fprintf(table, "version %d\t%s\t%s\t%s\t%s\n", v.Number, v.State, v.Made.Format(time.RFC3339), terminal.Escape(v.Author), terminal.Escape(v.Reason))
		}
		events = page.Events
		return table.Flush()
	})
	if err != nil || asJSON || len(events) == 0 {
		return err
	}
	fmt.Fprintln(table)
	for _, e := range events {
		why := e.Reason
		if e.Refused != "" {
			why = "refused: " + e.Refused
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.At.Format(time.RFC3339), terminal.Escape(e.Actor), eventWords(&e), terminal.Escape(why))
	}
	return table.Flush()
}

// eventWords is what was done, and to which version.
func eventWords(e *rulestore.Event) string {
	if e.Version == 0 {
		return e.Action
	}
	return fmt.Sprintf("%s version %d", e.Action, e.Version)
}

func rulesDiffCommand() *cobra.Command {
	var addr address
	var from, to int64
	cmd := &cobra.Command{
		Use:   "diff DOMAIN RULE",
		Short: "Tell two versions of a rule apart, line by line",
		Long: `Tell two versions of a rule apart, line by line: the proposed version from the
active one; without a proposed one, the active version from the one before it.
Version 0 is before there was a rule.`,
		Example: `  weir rules diff shop user
  weir rules diff --from 3 --to 5 shop user`,
		Args: exactTarget,
	}
	f := cmd.Flags()
	addr.rulesFlags(f)
	f.Int64Var(&from, "from", 0, "`NUMBER` of the older version")
	f.Int64Var(&to, "to", 0, "`NUMBER` of the newer version")
	cmd.MarkFlagsRequiredTogether("from", "to")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if from < 0 || to < 0 {
			return usagef("--from %d --to %d: versions are numbered from 1", from, to)
		}
		api, err := addr.rules()
		if err != nil {
			return err
		}
		t, out := target(args), cmd.OutOrStdout()
		if !cmd.Flags().Changed("from") {
			if from, to, err = newestPair(cmd.Context(), api, t); err != nil {
				return err
			}
		}
		answer, err := api.call(cmd.Context(), ruleCall{
			method: http.MethodGet, path: t.path("diff"),
			query: url.Values{"from": {strconv.FormatInt(from, 10)}, "to": {strconv.FormatInt(to, 10)}},
		})
		if err != nil {
			return err
		}
		return printDiff(out, t, from, to, string(answer.body))
	})
	return cmd
}

// newestPair is which versions of a rule people want to tell apart.
func newestPair(ctx context.Context, api *ruleAPI, t ruleTarget) (from, to int64, err error) {
	answer, err := api.call(ctx, ruleCall{method: http.MethodGet, path: t.path()})
	if err != nil {
		return 0, 0, err
	}
	var r ruleapi.Rule
	if err := answer.into(&r); err != nil {
		return 0, 0, err
	}
	switch {
	case r.Shadow != 0:
		return r.Enforced, r.Shadow, nil
	case r.Draft != 0:
		return r.Enforced, r.Draft, nil
	}
	answer, err = api.call(ctx, ruleCall{method: http.MethodGet, path: t.path("versions", strconv.FormatInt(r.Latest, 10))})
	if err != nil {
		return 0, 0, err
	}
	var v rulestore.Version
	err = answer.into(&v)
	return v.Base, v.Number, err
}

func printDiff(out io.Writer, t ruleTarget, from, to int64, diff string) error {
	_, diff, _ = strings.Cut(diff, "\n+++ after\n")
	if diff == "" {
		_, err := fmt.Fprintf(out, "%s: versions %d and %d are the same\n", t, from, to)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- version %d\n+++ version %d\n", from, to)
	for line := range strings.Lines(diff) {
		b.WriteString(terminal.Escape(strings.TrimSuffix(line, "\n")) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
