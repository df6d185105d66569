package main

import (
	"fmt"
	"strings"
)

// merging is the text of a rule file whose descriptors take over from each other
// by << what they don't say themselves.
func (g *generator) merging(domain string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	limits := 0
	for i := range 2 + g.IntN(3) {
		members := []string{
			"key: " + pick(g, "user", "path", "ip", "~"),
			"value: " + pick(g, "a", "b", "ab", "~", `""`),
			"shadow_mode: " + pick(g, "true", "false", "~"),
			"rate_limit: " + g.mergingLimit(&limits),
		}
		if g.features.Metadata {
			members = append(members, "metadata: "+pick(g, "{a: 1}", "{b: {c: 2}}", "{a: 3, b: {d: 4}}", "~"))
		}
		keep := members[:1]
		for _, m := range members[1:] {
			if g.chance(2) || i == 0 && strings.HasPrefix(m, "rate_limit") {
				keep = append(keep, m)
			}
		}
		if i > 0 {
			keep = g.mix(keep, fmt.Sprintf("<<: *d%d", g.IntN(i)))
		}
		fmt.Fprintf(&b, "  - &d%d {%s}\n", i, strings.Join(keep, ", "))
	}
	return b.String()
}

// mix puts merge among the members, mostly first, and leaves some of them out.
func (g *generator) mix(members []string, merge string) []string {
	var rest []string
	for _, m := range members {
		if !g.chance(3) {
			rest = append(rest, m)
		}
	}
	at := 0
	if g.chance(4) {
		at = g.IntN(len(rest) + 1)
	}
	return append(append(rest[:at:at], merge), rest[at:]...)
}

func (g *generator) mergingLimit(n *int) string {
	members := []string{
		"unit: " + pick(g, "hour", "day", "week", "~"),
		"requests_per_unit: " + pick(g, "3", "4", "5", "~"),
		"name: " + pick(g, "n1", "n2", "~"),
	}
	if *n > 0 && g.chance(2) {
		members = g.mix(members, fmt.Sprintf("<<: *r%d", g.IntN(*n)))
	}
	*n++
	if g.chance(3) {
		members = members[g.IntN(len(members)):]
	}
	return fmt.Sprintf("&r%d {%s}", *n-1, strings.Join(members, ", "))
}

// anyLevel has all that peeks at files of merging may meet.
func anyLevel() []*descriptor {
	var level []*descriptor
	for _, key := range []string{"user", "path", "ip"} {
		for _, value := range []string{"", "a", "b", "ab"} {
			level = append(level, &descriptor{key: key, value: value})
		}
	}
	return level
}
