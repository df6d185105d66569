// Package traffic is what the servers are asked: 10,000 keys of one domain,
// under limits that let everything pass.
package traffic

import (
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/bench/internal/load"
)

// Keys is how many keys the requests are about.
const Keys = 10_000

// Rules is the rule file.
const Rules = `domain: bench
descriptors:
  - key: user
    limits: [1000000000/hour]
  - key: path
    limits: [1000000000/hour]
  - key: plan
    limits: [1000000000/hour]
`

// keys are those that rules are for.
func keys() []string { return []string{"user", "path", "plan"} }

// GRPC are requests of Envoy's with so many descriptors, at most 3.
func GRPC(descriptors int) ([][]byte, error) {
	bodies := make([][]byte, Keys)
	for i := range bodies {
		q := &rls.RateLimitRequest{Domain: "bench"}
		for _, key := range keys()[:descriptors] {
			q.Descriptors = append(q.Descriptors, &ratelimit.RateLimitDescriptor{
				Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value(i)}},
			})
		}
		var err error
		if bodies[i], err = proto.Marshal(q); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

// Check are requests of /v1/check about one descriptor.
func Check() [][]byte { return check("user") }

// Fresh are those of Check about other keys.
func Fresh() [][]byte { return check("plan") }

func check(key string) [][]byte {
	requests := make([][]byte, Keys)
	for i := range requests {
		requests[i] = load.Post("/v1/check", fmt.Appendf(nil, `{"domain":"bench","descriptors":[{"entries":[{"key":"%s","value":"%s"}]}]}`, key, value(i)))
	}
	return requests
}

// Auth are requests of /auth about one descriptor.
func Auth() [][]byte {
	requests := make([][]byte, Keys)
	for i := range requests {
		requests[i] = load.GetRequest("/auth?domain=bench&e=user=" + value(i))
	}
	return requests
}

func value(i int) string { return fmt.Sprintf("user-%04d", i) }
