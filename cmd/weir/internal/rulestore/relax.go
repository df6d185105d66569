package rulestore

import (
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// InForce is the file with the overrides that hold at a time, and until when that
// is so; zero: until something is changed.
func (d *Document) InForce(now time.Time) (file string, until time.Time, err error) {
	active := d.Overrides.Active(now)
	if len(active) == 0 {
		return d.File, time.Time{}, nil
	}
	until = slices.MinFunc(active, func(a, b Override) int { return a.Until.Compare(b.Until) }).Until
	o, err := cutFile(d.Name, d.File)
	if err != nil {
		return "", until, err
	}
	for i, it := range o.items {
		hold := active.Of(it.id, now)
		if hold == nil {
			continue
		}
		if o.items[i].text, err = overridden(it.text, hold.Percent); err != nil {
			return "", until, err
		}
	}
	return o.file(), until, nil
}

// Applied is the text of a rule as the override makes it.
func (o *Override) Applied(text string) (string, error) { return overridden(text, o.Percent) }

// overridden is a rule with each limit at so many percent, or open at 0. It
// fails when a limit can't be found in the text, as behind an anchor in metadata.
func overridden(text string, percent int64) (string, error) {
	var list yaml.Node
	if err := yaml.Load([]byte(text), &list); err != nil {
		return "", invalid("text", "YAML: %v", err)
	}
	err := eachDescriptor(&list, func(d *yaml.Node) error {
		if percent == 0 {
			openUp(d)
			return nil
		}
		return tighten(d, percent)
	})
	if err != nil {
		return "", err
	}
	out, err := yaml.Dump(&list, yaml.WithV4Defaults())
	if err != nil {
		return "", invalid("text", "YAML: %v", err)
	}
	return string(out), sameButFor(text, string(out), percent)
}

// sameButFor makes sure that an override did what it should, and nothing else.
func sameButFor(before, after string, percent int64) error {
	cannot := invalid("percent", "the limits can't all be found in the text of the rule; write them where they belong, without anchors")
	const head = "domain: d\ndescriptors:\n"
	old, err := rules.Parse("rule", []byte(head+before))
	if err != nil {
		return refused(err)
	}
	now, err := rules.Parse("rule", []byte(head+after))
	if err != nil || len(now.Rules()) != len(old.Rules()) {
		return cannot
	}
	for i, r := range old.Rules() {
		is, want := now.Rules()[i], r.Written()
		if want != nil && percent > 0 {
			if want, err = rules.Tightened(want, percent); err != nil {
				return invalid("percent", "of %v: %v", r.Written(), err)
			}
		}
		open := percent > 0 || is.Shadow || r.Unlimited
		if is.State("") != r.State("") || !open || want != nil && is.Written().String() != want.String() {
			return cannot
		}
	}
	return nil
}

// eachDescriptor visits all descriptors of a list and below, each once. It visits the target of an
// alias where that was written.
func eachDescriptor(n *yaml.Node, visit func(*yaml.Node) error) error {
	if n.Kind == yaml.MappingNode && (member(n, "limits") != nil || member(n, "rate_limit") != nil) {
		if err := visit(n); err != nil {
			return err
		}
	}
	for _, child := range n.Content {
		if err := eachDescriptor(child, visit); err != nil {
			return err
		}
	}
	return nil
}

// member is the value of a key of a mapping, or nil.
func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// openUp makes a descriptor report, and not enforce.
func openUp(d *yaml.Node) {
	yes := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}
	if old := member(d, "shadow_mode"); old != nil {
		*old = *yes
		return
	}
	d.Content = append(d.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "shadow_mode"}, yes)
}

// tighten scales the limits of a descriptor. A limit that let something pass still lets one event
// pass at least.
func tighten(d *yaml.Node, percent int64) error {
	if limits := member(d, "limits"); limits != nil {
		for _, n := range limits.Content {
			if n.Kind == yaml.MappingNode {
				n = member(n, "limit")
			}
			if n == nil || n.Kind != yaml.ScalarNode {
				continue // an alias: it is scaled where it stands for
			}
			limit, err := weir.ParseLimit(n.Value)
			if err != nil {
				return invalid("text", "%v", err)
			}
			if limit, err = rules.Tightened(limit, percent); err != nil {
				return invalid("percent", "of %s: %v", n.Value, err)
			}
			n.Value = limit.String()
		}
	}
	if form := member(d, "rate_limit"); form != nil {
		if n := member(form, "requests_per_unit"); n != nil {
			count, err := strconv.ParseInt(n.Value, 10, 64)
			if err != nil {
				return invalid("text", "requests_per_unit: %v", err)
			}
			n.Value = strconv.FormatInt(rules.Scale(count, percent), 10)
		}
	}
	return nil
}
