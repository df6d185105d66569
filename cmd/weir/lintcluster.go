package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/logstore"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/rules"
)

// lintedStore is the store that rules are held against.
type lintedStore struct {
	traits  weir.Traits
	skew    time.Duration // by which clocks may be apart, where it has none
	when    string        // they are
	cluster bool          // it is the nodes themselves
	log     bool          // it is an event log
	said    bool          // by the one who asks
	nodes   int           // of a cluster, 0 when it is not known
}

func lintStore(flags *pflag.FlagSet, url string, nodes int) (*lintedStore, error) {
	in := &lintedStore{
		cluster: strings.HasPrefix(url, "cluster:"), log: logstore.Is(url),
		said: flags.Changed("store"), nodes: nodes,
	}
	switch {
	case flags.Changed("nodes") && !in.cluster && !in.log:
		return nil, usagef("--nodes is for a cluster, or daemons that share by a log; add --store cluster:")
	case flags.Changed("nodes") && (nodes < 1 || nodes > member.MaxMembers):
		return nil, usagef("--nodes is %d; it must be 1…%d", nodes, member.MaxMembers)
	}
	var err error
	in.traits, err = daemon.StoreTraits(url)
	in.skew, in.when = daemon.StoreSkew(url)
	return in, err
}

// shares fails with a *rules.Error where so many nodes can't share a limit.
func (in *lintedStore) shares(set *rules.Set) error {
	bad := &rules.Error{}
	for _, r := range set.Rules() {
		if !in.cluster || in.nodes == 0 || r.Unlimited || r.Nodes > 0 {
			continue
		}
		if why := bounds.Unfit(r.Sharing, r.Limit, in.nodes); why != "" {
			bad.Findings = append(bad.Findings, rules.Finding{
				File: r.File, Line: r.Line, Column: r.Column, Severity: rules.SeverityError, Rule: r.Name,
				Text: fmt.Sprintf("sharing: %s is impossible for %q: %s", r.Sharing, r.Limit, why),
			})
		}
	}
	if len(bad.Findings) > 0 {
		return bad
	}
	return nil
}

// idle warns of what has no effect with a store that was named.
func (in *lintedStore) idle(set *rules.Set) []rules.Finding {
	if !in.said {
		return nil
	}
	return set.Idle(in.cluster, in.traits)
}

// words says what may pass beyond what the rule's limit promises.
func (in *lintedStore) words(r *rules.Rule) string {
	if in.cluster {
		words, _ := r.Together(in.nodes)
		return "; " + words
	}
	words := ""
	if in.log {
		words = late(r, cmp.Or(r.Nodes, in.nodes))
	}
	return words + loose(r.Limit, in) + ahead(r) + held(r) + without(r, in.traits)
}

// late says in words what more daemons let pass that share by an event log, by how late they learn of each
// other's events; nodes is 0 when it is not known how many they are.
func late(r *rules.Rule, nodes int) string {
	period := r.Limit.Spec().Period
	more := func(lag time.Duration) int64 {
		return bounds.Shared(r.Limit, bounds.Log, max(nodes, 2), lag, period, 1) - r.Limit.Bound(period, 1)
	}
	who, sum := fmt.Sprintf("for %d daemons", nodes), ""
	switch nodes {
	case 0:
		who, sum = "for each other daemon", "; write nodes: N for the sum"
	case 1:
		return "; nothing more for one daemon"
	}
	return fmt.Sprintf("; at most %d more %s where the log is %v late, and %d where it is %v late; beyond, the fallback decides%s",
		more(bounds.LogUsual), who, bounds.LogUsual, more(bounds.LogWorst), bounds.LogWorst, sum)
}
