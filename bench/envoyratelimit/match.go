package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

type entry = ratelimit.RateLimitDescriptor_Entry

// naming is how a server finds the rule of a descriptor, and names its count.
type naming struct {
	match    func(f *ruleFile, entries []*entry) (d *descriptor, key string)
	override func(f *ruleFile, in *ratelimit.RateLimitDescriptor) (key string)
}

// Naming as envoyproxy/ratelimit and as Weir has it.
func joinedNaming() naming { return naming{matchJoined, overrideJoined} }
func apartNaming() naming  { return naming{matchApart, overrideApart} }

// overrideJoined: an override has the count of a rule with the same words.
func overrideJoined(f *ruleFile, in *ratelimit.RateLimitDescriptor) string {
	key := f.domain + "_"
	for _, e := range in.GetEntries() {
		key += e.GetKey() + "_" + e.GetValue() + "_"
	}
	return key
}

// overrideApart: the limit is part of the name.
func overrideApart(_ *ruleFile, in *ratelimit.RateLimitDescriptor) string {
	key := fmt.Sprintf("#%d/%v", in.GetLimit().GetRequestsPerUnit(), in.GetLimit().GetUnit())
	for _, e := range in.GetEntries() {
		key += strconv.Quote(e.GetKey()) + strconv.Quote(e.GetValue())
	}
	return key
}

// matchJoined is envoyproxy/ratelimit's: key and value are joined by _, and a *
// stands for any part of both. The count is named by the request's words.
func matchJoined(f *ruleFile, entries []*entry) (*descriptor, string) {
	var d *descriptor
	var key strings.Builder
	key.WriteString(f.domain + "_")
	level := f.level
	for _, e := range entries {
		text := e.GetKey() + "_" + e.GetValue()
		var wild bool
		if d, wild = findJoined(level, text, e.GetKey()); d == nil {
			return nil, ""
		}
		value := e.GetValue()
		if wild && d.share {
			value = strings.TrimPrefix(joined(d), e.GetKey()+"_")
		}
		key.WriteString(e.GetKey() + "_" + value + "_")
		level = d.below
	}
	return d, key.String()
}

func joined(d *descriptor) string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

func findJoined(level []*descriptor, text, key string) (d *descriptor, wild bool) {
	find := func(fits func(name string) bool) *descriptor {
		if i := slices.IndexFunc(level, func(d *descriptor) bool { return fits(joined(d)) }); i >= 0 {
			return level[i]
		}
		return nil
	}
	if d := find(func(name string) bool { return name == text }); d != nil {
		return d, false
	}
	if d := find(func(name string) bool { return strings.Contains(name, "*") && glob(name, text) }); d != nil {
		return d, true
	}
	return find(func(name string) bool { return name == key }), false
}

// matchApart is Weir's: key and value are looked at apart, and the count
// belongs to the place in the file, with the words that it leaves open.
func matchApart(f *ruleFile, entries []*entry) (*descriptor, string) {
	var d *descriptor
	var key strings.Builder
	level := f.level
	for _, e := range entries {
		i := findApart(level, e.GetKey(), e.GetValue())
		if i < 0 {
			return nil, ""
		}
		d = level[i]
		key.WriteString("/" + strconv.Itoa(i))
		if strings.Contains(d.key, "*") {
			key.WriteString(strconv.Quote(e.GetKey()))
		}
		if !d.share && (d.value == "" || strings.Contains(d.value, "*")) {
			key.WriteString(strconv.Quote(e.GetValue()))
		}
		level = d.below
	}
	return d, key.String()
}

func findApart(level []*descriptor, key, value string) int {
	exact := slices.IndexFunc(level, func(d *descriptor) bool { return d.key == key && d.value == value && value != "" })
	if exact >= 0 {
		return exact
	}
	wild := slices.IndexFunc(level, func(d *descriptor) bool {
		return strings.Contains(d.key+d.value, "*") && glob(d.key, key) && (d.value == "" || glob(d.value, value))
	})
	if wild >= 0 {
		return wild
	}
	return slices.IndexFunc(level, func(d *descriptor) bool { return d.key == key && d.value == "" })
}

// glob is whether text fits a pattern in which each * is any text.
func glob(pattern, text string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, before)
	for ok {
		if glob(after, rest) {
			return true
		}
		if rest == "" {
			return false
		}
		rest = rest[1:]
	}
	return false
}
