package envoy

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/rules"
)

// crowded is a request of so many descriptors, the last of which has so many entries.
func crowded(descriptors, entries int) *rls.RateLimitRequest {
	q := &rls.RateLimitRequest{Domain: `[,{"\`}
	for range descriptors {
		q.Descriptors = append(q.Descriptors, &ratelimit.RateLimitDescriptor{
			Limit: &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1},
		})
	}
	for range entries {
		last := q.Descriptors[descriptors-1]
		last.Entries = append(last.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: `]},"`, Value: "]"})
	}
	return q
}

// TestCrowds: a request that has more descriptors or entries than it may is refused
// before it is made, by both ways that it comes; one that has as many is read.
func TestCrowds(t *testing.T) {
	for _, c := range []struct {
		descriptors, entries int
		says                 string
	}{
		{rules.MaxDescriptors, rules.MaxEntries, ""},
		{rules.MaxDescriptors + 1, 1, "descriptors: there are 101; there may be 100"},
		{rules.MaxDescriptors, rules.MaxEntries + 1, "descriptors[99].entries: there are 17; there may be 16"},
	} {
		q := crowded(c.descriptors, c.entries)
		wire, err := proto.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := protojson.MarshalOptions{Multiline: true}.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		for way, unmarshal := range map[string]func(*rls.RateLimitRequest) error{
			"wire": func(q *rls.RateLimitRequest) error { return Unmarshal(wire, q) },
			"JSON": func(q *rls.RateLimitRequest) error { return UnmarshalJSON(text, q) },
		} {
			read := new(rls.RateLimitRequest)
			err := unmarshal(read)
			switch {
			case c.says == "":
				if err != nil || !proto.Equal(read, q) {
					t.Errorf("%s, %d descriptors: %v", way, c.descriptors, err)
				}
			case err == nil || err.Error() != c.says || len(read.Descriptors) > 0:
				t.Errorf("%s: %v, %d descriptors read, want %q", way, err, len(read.Descriptors), c.says)
			}
		}
	}
}

// TestCrowdsCost: what is refused costs no memory but for its answer, as large as
// the bodies of either way may be.
func TestCrowdsCost(t *testing.T) {
	for name, unmarshal := range map[string]func(*rls.RateLimitRequest) error{
		"2 MiB of empty descriptors": func(q *rls.RateLimitRequest) error {
			return Unmarshal(bytes.Repeat([]byte("\x12\x00"), 1<<20), q)
		},
		"1 MiB of {},": func(q *rls.RateLimitRequest) error {
			return UnmarshalJSON([]byte(`{"descriptors":[`+strings.Repeat("{},", 1<<20/3)), q)
		},
		"1 MiB of {}, by another name": func(q *rls.RateLimitRequest) error {
			return UnmarshalJSON([]byte(`{"descriptor\u0073" : [ `+strings.Repeat("{} , ", 1<<20/5)), q)
		},
		"entries": func(q *rls.RateLimitRequest) error {
			return UnmarshalJSON([]byte(`{"descriptors":[{"entries":[`+strings.Repeat("{},", 1<<20/3)), q)
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := unmarshal(new(rls.RateLimitRequest))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 8<<20 { // the test's own is most of it
			t.Errorf("%s: %v, %d bytes", name, err, n)
		}
	}
}
