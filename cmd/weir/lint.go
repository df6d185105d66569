package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/rlqs"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/rules"
)

func lintCommand() *cobra.Command {
	var url string
	var nodes int
	cmd := &cobra.Command{
		Use:   "lint PATH",
		Short: "Check rule files, and print what each limit lets pass",
		Long: `Check a rule file, or a folder of them. Findings come first, then for each rule
its limit and the most that can pass in one period. It exits 1 when there are
errors; warnings alone are fine.

With --store URL it also finds limits that such a store can't keep, tells what
it does not promise, and what passes in a period while it is away. It makes no
connection. With --store cluster: it tells how much more nodes let pass together
where they share a limit by mesh, gossip or hub, and what cuts between them cost;
--nodes says how many they are, for rules without nodes: N. With an event log,
--store kafka://HOST:PORT/TOPIC or nats://HOST:PORT?log=STREAM, it tells how much
more daemons let pass, by the lag of the log.`,
		Example: `  weir lint rules/
  weir lint --store redis+cluster://10.0.0.1:6379 rules/
  weir lint --store cluster: --nodes 5 rules/`,
		Args: wanted("PATH"),
	}
	cmd.Flags().StringVar(&url, "store", daemon.DefaultStore, "`URL` of where counts will be kept")
	storeCompletion(cmd)
	cmd.Flags().IntVar(&nodes, "nodes", 0, "`N` nodes of the cluster, or daemons at the log, for rules that don't say it")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		in, err := lintStore(cmd.Flags(), url, nodes)
		if err != nil {
			return err
		}
		set, err := rules.Load(args[0])
		findings, good, err := in.lint(set, err)
		if err != nil {
			return err
		}
		if err := printFindings(out, findings); err != nil {
			return err
		}
		if !good {
			return &failure{code: exitNo}
		}
		if err := printRules(out, set.Rules(), in); err != nil {
			return err
		}
		if err := printReasons(out, set.Rules()); err != nil {
			return err
		}
		return printTraits(out, in)
	})
	return cmd
}

// lint is what is to be said of rules that were read, or were not, with err: all errors, and then they are not good,
// or the warnings. It fails when they could not be read at all.
func (in *lintedStore) lint(set *rules.Set, err error) (findings []rules.Finding, good bool, _ error) {
	if err == nil {
		err = set.Fits(in.traits)
	}
	if err == nil {
		err = in.shares(set)
	}
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		return bad.Findings, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return append(set.Warnings(), in.idle(set)...), true, nil
}

// printTraits says in a line each what a store does not promise.
func printTraits(to io.Writer, in *lintedStore) error {
	var lines string
	store := in.traits
	if !store.Atomic {
		lines += "this store charges the descriptors of a request one after the other, and gives back when one denies: never too much passes, but other requests may be denied meanwhile\n"
	}
	switch {
	case !store.Shared || store.OwnClock:
	case in.skew < time.Second:
		lines += "each process reckons by this store's clock, as near as half of a round trip; where two are off by so much, a limit passes in any time what it promises for a time that is longer by both\n"
	default:
		lines += "this store has no clock: each process brings its own; where they are up to 2s apart, a limit passes in any time what it promises for a time that is longer by as much\n"
	}
	switch {
	case store.Forgets && store.Atomic:
		lines += "this store drops all counts when its server crashes: each key begins anew, also one that was denied\n"
	case store.Forgets:
		lines += "this store drops counts when it is full, and all when it restarts: a key that was dropped begins anew, also one that was denied\n"
	}
	_, err := io.WriteString(to, lines)
	return err
}

// loose says in words what may pass in a period beyond what a limit promises,
// because of what the store does not.
func loose(l *weir.Limit, in *lintedStore) string {
	period, words, store := l.Spec().Period, "", in.traits
	if l.Bound(period, 1) == 0 {
		return ""
	}
	if store.Shared && !store.OwnClock {
		words += fmt.Sprintf("; %d more if %s", l.Bound(period+in.skew, 1)-l.Bound(period, 1), in.when)
	}
	if store.Forgets {
		anew, _ := l.Standing(nil, 0)
		words += fmt.Sprintf("; %d more for each time that its count is dropped", anew)
	}
	return words
}

// without says what passes while the store is away.
func without(r *rules.Rule, store weir.Traits) string {
	if !store.Shared {
		return ""
	}
	switch r.Fallback {
	case weir.FallbackOpen:
		return "; all while the store is away"
	case weir.FallbackClosed:
		return "; none while the store is away"
	case weir.FallbackLocal:
	}
	most, _ := guard.Share(r.Limit, r.Nodes).DescribeBound()
	if r.Nodes <= 1 {
		return fmt.Sprintf("; while the store is away %s, in each process", most)
	}
	return fmt.Sprintf("; while the store is away %s, in each of %d processes", most, r.Nodes)
}

func printFindings(to io.Writer, findings []rules.Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintln(to, terminal.Escape(f.String())); err != nil {
			return err
		}
	}
	return nil
}

func printRules(to io.Writer, all []*rules.Rule, in *lintedStore) error {
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
		most, _ := r.Limit.DescribeBound()
		fmt.Fprintf(t, "%s\t%s\t%s%s%s%s\n", r.Name, r.Limit, most, in.words(r), proxies(r), shadow)
	}
	return t.Flush()
}

// printReasons says why more than the count may pass in a period: each reason once, of
// the first limit that has it.
func printReasons(to io.Writer, all []*rules.Rule) error {
	said := map[string]bool{}
	for _, r := range all {
		if r.Unlimited {
			continue
		}
		most, why := r.Limit.DescribeBound()
		if why == "" || said[why] {
			continue
		}
		said[why] = true
		if _, err := fmt.Fprintf(to, "why %s, of %s: %s\n", most, r.Limit, why); err != nil {
			return err
		}
	}
	return nil
}

// proxies says in words what proxies have of a rule that divides its limit between them and other callers, and whether
// that is too little for a fleet.
func proxies(r *rules.Rule) string {
	if r.Quota == nil {
		return ""
	}
	most, _ := r.Quota.DescribeBound()
	words := fmt.Sprintf("; proxies have %s of %s by quota: %d%%, %s", r.Quota, r.Whole, r.QuotaPercent, most)
	terms := rlqs.TermsOf(r.Quota)
	if few := min(terms.Burst/2, terms.Pace/60); few < fleet {
		words += fmt.Sprintf("; RLQS can't keep that well for more than %d proxies, which then have it by turns: have them ask ShouldRateLimit", max(few, 1))
	}
	return words
}

// fleet is for how many proxies a part should do.
const fleet = 50

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
		return fmt.Sprintf("; with sync %v on a shared store at most %d more for each node, which has up to %d not reported; write nodes: N for the sum", r.Sync, more(1), each)
	}
	return fmt.Sprintf("; with sync %v on a shared store at most %d more, for each of %d nodes has up to %d not reported", r.Sync, more(r.Nodes), r.Nodes, each)
}

// held says in words what lease takes away from what a limit lets pass: what nodes hold and have not spent.
func held(r *rules.Rule) string {
	if r.Lease == 0 || r.After {
		return ""
	}
	each := leased.Largest(r.Limit)
	if r.Nodes == 0 {
		return fmt.Sprintf("; with lease %v on a shared store no more, and at most %d fewer for each node, which may hold so many that have not passed; write nodes: N for the sum", r.Lease, each)
	}
	return fmt.Sprintf("; with lease %v on a shared store no more, and at most %d fewer, for each of %d nodes may hold %d that have not passed", r.Lease, each*int64(r.Nodes), r.Nodes, each)
}
