package envoy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-limit/weir/rules"
)

// metadataOf is what Envoy keeps of an answer for its other filters and its
// access log, in the form of envoyproxy/ratelimit: the metadata of the rules that
// let their descriptor pass, merged. It is nil when there is nothing to say.
func metadataOf(a *rules.Answer, descriptors int) map[string]any {
	if !slices.ContainsFunc(a.Decisions, func(d rules.Decision) bool { return d.Rule.Metadata != nil }) {
		return nil
	}
	var merged map[string]any
	next := 0
	for i, s := range standings(a, descriptors) {
		for seen := false; next < len(a.Decisions) && a.Decisions[next].Descriptor == i; next++ {
			// All rules of a descriptor stand at one descriptor of the file.
			if m := a.Decisions[next].Rule.Metadata; m != nil && !seen && s.code == rls.RateLimitResponse_OK {
				merged, seen = merge(merged, m), true
			}
		}
	}
	if merged == nil {
		return nil
	}
	return map[string]any{"metadata": merged}
}

// withRequest adds what was asked.
func withRequest(metadata map[string]any, q *rls.RateLimitRequest) map[string]any {
	if metadata == nil {
		metadata = map[string]any{}
	}
	echoRequest(metadata, q)
	return metadata
}

// structOf is metadata as a message; nil: there is none.
func structOf(metadata map[string]any) *structpb.Struct {
	if metadata == nil {
		return nil
	}
	s, _ := structpb.NewStruct(metadata) // fails for text that is no UTF-8, which neither side sends
	return s
}

// merge adds to a what b has and a has not, also in mappings inside. It changes
// neither: rules are shared.
func merge(a, b map[string]any) map[string]any {
	if a == nil {
		return b
	}
	both := maps.Clone(a)
	for k, v := range b {
		before, there := both[k]
		if !there {
			both[k] = v
			continue
		}
		if inside, ok := before.(map[string]any); ok {
			if more, ok := v.(map[string]any); ok {
				both[k] = merge(inside, more)
			}
		}
	}
	return both
}

// echoRequest tells what was asked.
func echoRequest(fields map[string]any, q *rls.RateLimitRequest) {
	fields["domain"] = q.GetDomain()
	descriptors := []any{}
	for _, d := range q.GetDescriptors() {
		descriptors = append(descriptors, echoDescriptor(d))
	}
	fields["descriptors"] = descriptors
	if hits := q.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = hits
	}
}

func echoDescriptor(d *ratelimit.RateLimitDescriptor) map[string]any {
	entries := []any{}
	for _, e := range d.GetEntries() {
		entries = append(entries, e.GetKey()+"="+e.GetValue())
	}
	fields := map[string]any{"entries": entries}
	if o := d.GetLimit(); o != nil {
		fields["limit"] = overrideText(o)
	}
	if hits := d.GetHitsAddend(); hits != nil {
		fields["hitsAddend"] = hits.GetValue()
	}
	return fields
}

// overrideText is a limit that a request brought along, as protobuf prints it.
func overrideText(o *ratelimit.RateLimitDescriptor_RateLimitOverride) string {
	var words []string
	if n := o.GetRequestsPerUnit(); n != 0 {
		words = append(words, "requests_per_unit:"+strconv.FormatUint(uint64(n), 10))
	}
	words = append(words, "unit:"+o.GetUnit().String())
	if m := o.GetUnitMultiplier(); m != nil {
		words = append(words, "unit_multiplier:{value:"+strconv.FormatUint(uint64(m.GetValue()), 10)+"}")
	}
	return strings.Join(words, " ")
}
