package limited

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// Whose finds the request of a client, by the rules that have the name of its rule; why is why nobody can tell, or empty. hashed is whether a hash
// stands for each name.
func Whose(set *rules.Set, named []*rules.Rule, c *Client, hashed bool) (rule *rules.Rule, entries []rules.Entry, why string) {
	switch {
	case hashed:
		return nil, nil, "a hash stands for its name"
	case offenders.IsShortened(c.Name):
		return nil, nil, fmt.Sprintf("its name is longer than %d bytes, and cut", offenders.MaxName)
	case strings.HasSuffix(c.Rule, "#override"):
		return nil, nil, "its requests bring their limit along"
	case len(named) == 0:
		return nil, nil, "its rule is not active at this node"
	}
	for _, r := range named {
		found, ok := set.Entries(r, c.Name)
		switch {
		case !ok:
		case rule == nil:
			rule, entries = r, found
		case !slices.Equal(entries, found):
			return nil, nil, "several rules have this name"
		}
	}
	if rule == nil {
		return nil, nil, "no request of this name meets the rule now"
	}
	return rule, entries, ""
}

// Called is which client of which rule a request with entries is, the other way round than Whose; why is why nobody can tell, or empty.
func Called(set *rules.Set, domain string, entries []rules.Entry) (rule *rules.Rule, name, why string) {
	var met []*rules.Rule
	if set != nil {
		met, _ = set.Match(domain, &rules.Descriptor{Entries: entries})
	}
	for _, r := range met {
		name := string(r.AppendKeyName(nil, entries))
		if _, ok := set.Entries(r, name); ok {
			return r, name, ""
		}
	}
	if len(met) == 0 {
		return nil, "", "no active rule is for such a request"
	}
	return nil, "", "its name does not tell which request it was"
}

// Decides is the rules that decide about a request with entries, with the limits of exceptions; *rules.Limiter.Reset with a peek is one.
type Decides func(ctx context.Context, domain string, entries []rules.Entry) ([]*rules.Rule, error)

// Zero is the first of some rules that lets nothing pass, whatever was used; nil: none is such.
func Zero(deciding []*rules.Rule) *rules.Rule {
	for _, r := range deciding {
		if !r.Shadow && !r.Unlimited && r.Limit.Spec().Count == 0 {
			return r
		}
	}
	return nil
}

// StillDenied is what helps a client whose limit lets nothing pass.
func StillDenied(zero *rules.Rule) string {
	return fmt.Sprintf("The limit of the rule %s is 0 for it (%s), so that it goes on being denied: only another limit helps, by an exception or another rule.", zero.Name, zero.Limit)
}

// Unblocked says what came of unblocking a client of some rules: on how many nodes its counts were reset, and on which they are not yet.
func Unblocked(client string, deciding []*rules.Rule, nodes int, late []string) string {
	on := "1 node"
	if nodes != 1 {
		on = fmt.Sprintf("%d nodes", nodes)
	}
	said := fmt.Sprintf("The counts of %s were reset on %s.", client, on)
	if zero := Zero(deciding); zero != nil {
		said += " " + StillDenied(zero)
	} else {
		said += " Its next request passes, unless another rule denies it."
	}
	if len(late) > 0 {
		said += " Not yet on " + strings.Join(late, ", ") + ": a node does it when it hears of it, within a minute, and else keeps its count."
	}
	return said
}
