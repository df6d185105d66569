package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

func lintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint PATH",
		Short: "Check rule files, and print what each limit lets pass",
		Long: `Check a rule file, or a folder of them. Findings come first, then for each rule
its limit and the most that can pass in one period. It exits 1 when there are
errors; warnings alone are fine.`,
		Args: cobra.ExactArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			set, err := rules.Load(args[0])
			if bad, ok := errors.AsType[*rules.Error](err); ok {
				if err := printFindings(out, bad.Findings); err != nil {
					return err
				}
				return &failure{code: exitNo}
			}
			if err != nil {
				return err
			}
			if err := printFindings(out, set.Warnings()); err != nil {
				return err
			}
			return printRules(out, set.Rules())
		}),
	}
}

func printFindings(to io.Writer, findings []rules.Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintln(to, f); err != nil {
			return err
		}
	}
	return nil
}

func printRules(to io.Writer, all []*rules.Rule) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, r := range all {
		shadow := ""
		if r.Shadow {
			shadow = " (shadow: not enforced)"
		}
		if r.Unlimited {
			fmt.Fprintf(t, "%s\tunlimited\tall may pass\n", r.Name)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s%s%s\n", r.Name, r.Limit, most(r.Limit), ahead(r), shadow)
	}
	return t.Flush()
}

// ahead says in words what sync adds to what a limit lets pass in one period.
func ahead(r *rules.Rule) string {
	each := r.Limit.Unsynced(r.Sync)
	if each == 0 || r.After {
		return ""
	}
	period := r.Limit.Spec().Period
	more := func(nodes int) int64 {
		return r.Limit.BoundSynced(period, r.Sync, nodes, 1) - r.Limit.Bound(period, 1)
	}
	if r.Nodes == 0 {
		return fmt.Sprintf("; with sync %v on a shared store at most %d more for each node, which has up to %d untold; write nodes: N for the sum", r.Sync, more(1), each)
	}
	return fmt.Sprintf("; with sync %v on a shared store at most %d more, for each of %d nodes has up to %d untold", r.Sync, more(r.Nodes), r.Nodes, each)
}

// most says in words what a limit lets pass in one period, by single events.
func most(l *weir.Limit) string {
	s := l.Spec()
	if s.Algorithm == weir.Concurrent {
		return fmt.Sprintf("at most %d at a time", s.Count)
	}
	_, period, _ := strings.Cut(l.String(), "/")
	period, _, _ = strings.Cut(period, " ")
	if period[0] > '9' {
		period = "1" + period
	}
	return fmt.Sprintf("at most %d in any %s", l.Bound(s.Period, 1), period)
}
