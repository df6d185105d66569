package xds

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxDepth is how many descriptors may stand in each other. A request has far fewer entries, so deeper ones limit nothing.
const maxDepth = 100

// ruleFile is a resource as a rule file in Envoy's form. It judges nothing: the reader of rule files
// does, as for files, and what it says speaks of lines of this text, which /v1/export shows.
//
// Unknown units are written by their numbers, so that the reader refuses them. What has no effect is
// left out: options of descriptors without a limit, which Envoy Gateway sends.
func ruleFile(c *rlsv3.RateLimitConfig) []byte {
	w := writer{}
	w.line("", "domain: ", quote(c.GetDomain()))
	w.descriptors("", c.GetDescriptors(), true)
	return w.text
}

type writer struct{ text []byte }

func (w *writer) line(parts ...string) {
	for _, part := range parts {
		w.text = append(w.text, part...)
	}
	w.text = append(w.text, '\n')
}

func (w *writer) descriptors(indent string, list []*rlsv3.RateLimitDescriptor, top bool) {
	switch {
	case len(list) > 0:
		w.line(indent, "descriptors:")
	case top:
		w.line(indent, "descriptors: []") // without the key a file counts as half written
	}
	for _, d := range list {
		w.line(indent, "- key: ", quote(d.GetKey()))
		within := indent + "  "
		if d.GetValue() != "" {
			w.line(within, "value: ", quote(d.GetValue()))
			if d.GetValue() == d.GetKey() && strings.Contains(d.GetKey(), "*") {
				// It is a name, as Envoy Gateway gives to routes: a * in it is no pattern.
				w.line(within, "match: exact")
			}
		}
		if d.GetRateLimit() != nil {
			w.limit(within, d)
		}
		w.descriptors(within, d.GetDescriptors(), false)
	}
}

func (w *writer) limit(indent string, d *rlsv3.RateLimitDescriptor) {
	l := d.GetRateLimit()
	var parts []string
	if l.GetUnit() != rlsv3.RateLimitUnit_UNKNOWN {
		parts = append(parts, "unit: "+strings.ToLower(l.GetUnit().String()))
	}
	if l.GetUnlimited() {
		parts = append(parts, "unlimited: true")
	} else {
		parts = append(parts, "requests_per_unit: "+strconv.FormatUint(uint64(l.GetRequestsPerUnit()), 10))
	}
	if l.GetName() != "" {
		parts = append(parts, "name: "+quote(l.GetName()))
	}
	if len(l.GetReplaces()) > 0 {
		var names []string
		for _, r := range l.GetReplaces() {
			names = append(names, "{name: "+quote(r.GetName())+"}")
		}
		parts = append(parts, "replaces: ["+strings.Join(names, ", ")+"]")
	}
	w.line(indent, "rate_limit: {", strings.Join(parts, ", "), "}")
	for _, option := range []struct {
		name string
		yes  bool
	}{{"shadow_mode", d.GetShadowMode()}, {"quota_mode", d.GetQuotaMode()}, {"detailed_metric", d.GetDetailedMetric()}} {
		if option.yes {
			w.line(indent, option.name, ": true")
		}
	}
	if len(d.GetMetadata().GetFields()) > 0 {
		w.line(indent, "metadata: ", string(appendStruct(nil, d.GetMetadata())))
	}
}

// quote is a text as YAML has it between quotation marks: each escape of Go's is one there, too.
func quote(text string) string { return strconv.Quote(text) }

func appendStruct(b []byte, s *structpb.Struct) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(strconv.AppendQuote(b, name), ": "...)
		b = appendValue(b, s.GetFields()[name])
	}
	return append(b, '}')
}

func appendValue(b []byte, v *structpb.Value) []byte {
	switch v := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, v.BoolValue)
	case *structpb.Value_NumberValue:
		return appendNumber(b, v.NumberValue)
	case *structpb.Value_StringValue:
		return strconv.AppendQuote(b, v.StringValue)
	case *structpb.Value_StructValue:
		return appendStruct(b, v.StructValue)
	case *structpb.Value_ListValue:
		b = append(b, '[')
		for i, item := range v.ListValue.GetValues() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendValue(b, item)
		}
		return append(b, ']')
	}
	return append(b, "null"...)
}

// appendNumber writes a number so that YAML reads the same one: whole numbers without a point, as far as
// doubles count them all.
func appendNumber(b []byte, n float64) []byte {
	const exact = 1 << 53
	switch {
	case math.IsNaN(n):
		return append(b, ".nan"...)
	case math.IsInf(n, 0):
		return append(b, map[bool]string{true: ".inf", false: "-.inf"}[n > 0]...)
	case n == math.Trunc(n) && math.Abs(n) <= exact:
		return strconv.AppendInt(b, int64(n), 10)
	}
	return strconv.AppendFloat(b, n, 'e', -1, 64)
}

// depth is how many descriptors stand in each other, at most; no more than one over maxDepth are counted.
func depth(list []*rlsv3.RateLimitDescriptor, around int) int {
	most := around
	if around > maxDepth {
		return most
	}
	for _, d := range list {
		most = max(most, depth(d.GetDescriptors(), around+1))
	}
	return most
}
