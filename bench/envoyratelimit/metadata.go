package main

import (
	"encoding/json"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// canonical is a value as JSON that is the same for equal values.
func canonical(v *structpb.Value) string {
	text, err := json.Marshal(v.AsInterface())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// metadataOf is what the rules of the asks give back: that of all that were
// answered with OK, merged; of equal keys the first.
func metadataOf(asks []ask, a answer) string {
	all := map[string]any{}
	for i := range asks {
		if !asks[i].limited || asks[i].place == nil || a.Statuses[i].Code != rls.RateLimitResponse_OK {
			continue
		}
		if text := asks[i].place.metadata; text != "" {
			var more map[string]any
			if err := json.Unmarshal([]byte(text), &more); err == nil {
				merge(all, more)
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func merge(into, from map[string]any) {
	for k, v := range from {
		before, there := into[k]
		if !there {
			into[k] = v
			continue
		}
		a, isMap := before.(map[string]any)
		if b, both := v.(map[string]any); isMap && both {
			merge(a, b)
		}
	}
}
