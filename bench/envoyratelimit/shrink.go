package main

import (
	"context"
	"slices"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// replay starts both servers anew and sends the requests. It gives what the
// last one differs in.
func replay(ctx context.Context, s *servers, f *ruleFile, requests []*rls.RateLimitRequest, json bool) ([]string, error) {
	if err := s.load(ctx, map[string]string{f.domain + ".yaml": f.yaml()}); err != nil {
		return nil, err
	}
	p := newPair(f)
	for _, q := range requests {
		v, err := p.ask(ctx, s, q, json)
		if err != nil || v.skipped {
			return nil, err
		}
		if len(v.unknown) > 0 {
			return v.unknown, nil
		}
	}
	return nil, nil
}

// shrink makes a finding smaller while it stays one, within a number of tries.
func shrink(ctx context.Context, s *servers, x *finding, tries int) error {
	stays := func(f *ruleFile, requests []*rls.RateLimitRequest) (bool, error) {
		if tries--; tries < 0 {
			return false, nil
		}
		what, err := replay(ctx, s, f, requests, x.json)
		if err != nil || len(what) == 0 {
			return false, err
		}
		x.file, x.requests, x.What = f, requests, what
		return true, nil
	}
	if ok, err := stays(x.file, x.requests); !ok {
		return err
	}
	for n := len(x.requests) / 2; n > 0; n /= 2 {
		for i := 0; i+n < len(x.requests); {
			ok, err := stays(x.file, slices.Delete(slices.Clone(x.requests), i, i+n))
			if err != nil {
				return err
			}
			if !ok {
				i += n
			}
		}
	}
	if err := shrinkRequests(x, stays); err != nil {
		return err
	}
	return shrinkRules(x, stays)
}

type trial func(*ruleFile, []*rls.RateLimitRequest) (bool, error)

// shrinkRequests takes descriptors out of requests.
func shrinkRequests(x *finding, stays trial) error {
	for i := 0; i < len(x.requests); i++ {
		for j := 0; j < len(x.requests[i].Descriptors) && len(x.requests[i].Descriptors) > 1; {
			requests := slices.Clone(x.requests)
			requests[i] = proto.CloneOf(requests[i])
			requests[i].Descriptors = slices.Delete(requests[i].Descriptors, j, j+1)
			ok, err := stays(x.file, requests)
			if err != nil {
				return err
			}
			if !ok {
				j++
			}
		}
	}
	return nil
}

// shrinkRules takes descriptors out of the rule file.
func shrinkRules(x *finding, stays trial) error {
	for again := true; again; {
		again = false
		for _, way := range ways(x.file.level, nil) {
			ok, err := stays(x.file.without(way), x.requests)
			if err != nil {
				return err
			}
			if again = ok; ok {
				break // the ways are others now
			}
		}
	}
	return nil
}

// shrinkText takes lines out of a rule file while stays holds.
func shrinkText(text string, tries int, stays func(text string) (bool, error)) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for n := len(lines) / 2; n > 0; n /= 2 {
		for i := 0; i+n <= len(lines) && tries > 0; tries-- {
			less := slices.Delete(slices.Clone(lines), i, i+n)
			ok, err := stays(strings.Join(less, ""))
			if err != nil {
				return "", err
			}
			if ok {
				lines = less
			} else {
				i += n
			}
		}
	}
	return strings.Join(lines, ""), nil
}
