package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/internal/sharing"
	"github.com/weir-limit/weir/internal/sharing/bounds"
	"github.com/weir-limit/weir/rules"
)

// lintedStore is the store that rules are held against.
type lintedStore struct {
	traits  weir.Traits
	skew    time.Duration // by which clocks may be apart, where it has none
	when    string        // they are
	cluster bool          // it is the nodes themselves
	said    bool          // by the one who asks
	nodes   int           // of a cluster, 0 when it is not known
}

func lintStore(flags *pflag.FlagSet, url string, nodes int) (*lintedStore, error) {
	in := &lintedStore{cluster: strings.HasPrefix(url, "cluster:"), said: flags.Changed("store"), nodes: nodes}
	switch {
	case flags.Changed("nodes") && !in.cluster:
		return nil, usagef("--nodes is for a cluster; add --store cluster:")
	case flags.Changed("nodes") && (nodes < 1 || nodes > sharing.MaxMembers):
		return nil, usagef("--nodes is %d; it must be 1…%d", nodes, sharing.MaxMembers)
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
	return set.Idle(in.cluster)
}

// words says what may pass beyond what the rule's limit promises.
func (in *lintedStore) words(r *rules.Rule) string {
	if in.cluster {
		words, _ := r.Together(in.nodes)
		return "; " + words
	}
	return loose(r.Limit, in) + ahead(r) + held(r) + without(r, in.traits)
}
