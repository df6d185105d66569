package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ruleFile is a rule file in Envoy's form.
type ruleFile struct {
	domain string
	level  []*descriptor
}

// descriptor is one of a rule file.
type descriptor struct {
	key, value string
	limit      *rateLimit
	shadow     bool
	quota      bool
	detailed   bool
	toMetric   bool
	share      bool
	metadata   string // a JSON object, which YAML reads too
	below      []*descriptor
}

// rateLimit is the rate_limit of a descriptor.
type rateLimit struct {
	unit      string
	count     uint32
	unlimited bool
	name      string
	replaces  []string
}

// yaml is the text of f.
func (f *ruleFile) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\n", f.domain)
	if len(f.level) == 0 {
		b.WriteString("descriptors: []\n")
		return b.String()
	}
	writeLevel(&b, f.level, "")
	return b.String()
}

func writeLevel(b *strings.Builder, level []*descriptor, indent string) {
	fmt.Fprintf(b, "%sdescriptors:\n", indent)
	for _, d := range level {
		d.write(b, indent+"  ")
	}
}

func (d *descriptor) write(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s- key: %s\n", indent, strconv.Quote(d.key))
	indent += "  "
	if d.value != "" {
		fmt.Fprintf(b, "%svalue: %s\n", indent, strconv.Quote(d.value))
	}
	if d.limit != nil {
		d.limit.write(b, indent)
	}
	for _, o := range []struct {
		name string
		on   bool
	}{
		{"shadow_mode", d.shadow},
		{"quota_mode", d.quota},
		{"detailed_metric", d.detailed},
		{"value_to_metric", d.toMetric},
		{"share_threshold", d.share},
	} {
		if o.on {
			fmt.Fprintf(b, "%s%s: true\n", indent, o.name)
		}
	}
	if d.metadata != "" {
		fmt.Fprintf(b, "%smetadata: %s\n", indent, d.metadata)
	}
	if len(d.below) > 0 {
		writeLevel(b, d.below, indent)
	}
}

func (l *rateLimit) write(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%srate_limit:\n", indent)
	indent += "  "
	if l.unlimited {
		fmt.Fprintf(b, "%sunlimited: true\n", indent)
	} else {
		fmt.Fprintf(b, "%sunit: %s\n%srequests_per_unit: %d\n", indent, l.unit, indent, l.count)
	}
	if l.name != "" {
		fmt.Fprintf(b, "%sname: %s\n", indent, l.name)
	}
	if len(l.replaces) == 0 {
		return
	}
	fmt.Fprintf(b, "%sreplaces:\n", indent)
	for _, name := range l.replaces {
		fmt.Fprintf(b, "%s  - name: %s\n", indent, name)
	}
}

// without is f without one descriptor of the level that begins at way, and all
// below it: way is indexes from the top.
func (f *ruleFile) without(way []int) *ruleFile {
	return &ruleFile{domain: f.domain, level: dropFrom(f.level, way)}
}

func dropFrom(level []*descriptor, way []int) []*descriptor {
	level = slices.Clone(level)
	if len(way) == 1 {
		return slices.Delete(level, way[0], way[0]+1)
	}
	d := *level[way[0]]
	d.below = dropFrom(d.below, way[1:])
	level[way[0]] = &d
	return level
}

// ways are the ways to all descriptors of a level, the deepest first.
func ways(level []*descriptor, before []int) [][]int {
	var all [][]int
	for i, d := range level {
		way := append(slices.Clone(before), i)
		all = append(all, ways(d.below, way)...)
		all = append(all, way)
	}
	slices.SortStableFunc(all, func(a, b []int) int { return len(a) - len(b) })
	return all
}
