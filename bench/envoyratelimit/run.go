package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// finding is a difference that nothing explains, and how to see it again.
type finding struct {
	What     []string `json:"what"`
	Rules    string   `json:"rules"`
	Requests []string `json:"requests,omitempty"` // proto JSON
	file     *ruleFile
	requests []*rls.RateLimitRequest
	json     bool
}

// maxFindings is how many findings of a kind are kept; the rest is counted.
const maxFindings = 5

// comparison is one run.
type comparison struct {
	options options
	built   *built
	servers *servers
	result  result
}

// report keeps a finding, shrunk or not.
func (c *comparison) report(f finding) {
	c.result.Unclassified++
	if len(c.result.Findings) < 4*maxFindings {
		c.result.Findings = append(c.result.Findings, f)
	}
}

// generator makes a source of random things that is the same for a seed.
func (c *comparison) generator(stream uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(c.options.seed, stream)), features: c.result.Features}
}

// probe finds out what this envoyproxy/ratelimit knows.
func (c *comparison) probe(ctx context.Context) error {
	accepts := func(text string) (bool, error) {
		peer, _, err := c.built.opinions(ctx, text)
		return !peer.refused, err
	}
	var err error
	f := &c.result.Features
	if f.InnerStar, err = accepts("domain: d\ndescriptors: [{key: k, value: a*b, share_threshold: true}]\n"); err != nil {
		return err
	}
	if f.Metadata, err = accepts("domain: d\ndescriptors: [{key: k, metadata: {a: b}}]\n"); err != nil {
		return err
	}
	text := "domain: d\ndescriptors: [{key: k, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}]\n"
	if err := c.servers.load(ctx, map[string]string{"probe.yaml": text}); err != nil {
		return err
	}
	a, err := c.servers.peer.ask(ctx, &rls.RateLimitRequest{
		Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*entry{{Key: "k", Value: "v"}}}},
	}, false)
	f.Quota = a.Code == rls.RateLimitResponse_OVER_LIMIT
	return err
}

// streams sends requests to both under random rules.
func (c *comparison) streams(ctx context.Context) error {
	g := c.generator(1)
	var files []*ruleFile
	texts := map[string]string{}
	for i := range c.options.files {
		f := g.file(fmt.Sprintf("d%d", i))
		ok, err := c.accepted(ctx, f.yaml())
		if err != nil {
			return err
		}
		if ok {
			files = append(files, f)
			texts[f.domain+".yaml"] = f.yaml()
		}
	}
	if err := c.servers.load(ctx, texts); err != nil {
		return err
	}
	var found []finding
	for _, f := range files {
		x, err := c.stream(ctx, g, f, c.options.requests/len(files))
		if err != nil {
			return err
		}
		if x != nil {
			found = append(found, *x)
		}
	}
	for i := range found {
		if i < maxFindings {
			if err := shrink(ctx, c.servers, &found[i], c.options.shrink); err != nil {
				return err
			}
		}
		found[i].Rules = found[i].file.yaml()
		found[i].Requests = jsonOf(found[i].requests)
		c.report(found[i])
	}
	return nil
}

// stream sends requests to one domain, until one is answered in a way that
// nothing explains.
func (c *comparison) stream(ctx context.Context, g *generator, f *ruleFile, n int) (*finding, error) {
	p := newPair(f)
	var sent []*rls.RateLimitRequest
	json := g.chance(5)
	for range n {
		q := g.request(f)
		v, err := p.ask(ctx, c.servers, q, json)
		if err != nil {
			return nil, fmt.Errorf("%w, for %s under\n%s", err, jsonOf([]*rls.RateLimitRequest{q}), f.yaml())
		}
		if sent = append(sent, q); v.skipped {
			c.result.Skipped++
			return nil, nil
		}
		c.result.Requests++
		for name, times := range v.known {
			c.result.seen(name, times)
		}
		if len(v.unknown) > 0 {
			return &finding{What: v.unknown, file: f, requests: sent, json: json}, nil
		}
	}
	return nil, nil
}

// accepted is whether both take a rule file. It reports when only one does.
func (c *comparison) accepted(ctx context.Context, text string) (bool, error) {
	peer, ours, err := c.built.opinions(ctx, text)
	if err != nil {
		return false, err
	}
	c.result.Files++
	if peer.refused == ours.refused {
		if peer.refused {
			c.result.Refused++
		}
		return !peer.refused, nil
	}
	if name := knownOpinion(peer, ours); name != "" {
		c.result.seen(name, 1)
		return false, nil
	}
	small, err := shrinkText(text, c.options.shrink, func(text string) (bool, error) {
		p, o, err := c.built.opinions(ctx, text)
		return p.refused == peer.refused && o.refused == ours.refused && knownOpinion(p, o) == "", err
	})
	if err != nil {
		return false, err
	}
	peer, ours, err = c.built.opinions(ctx, small)
	c.report(finding{Rules: small, What: []string{
		"accepted by one, refused by the other: envoyproxy/ratelimit: " + peer.String() + "; Weir: " + ours.String(),
	}})
	return false, err
}

// damaged compares rule files that were broken at random: which service refuses them, and what the
// files mean that both accept, asked by peeking.
func (c *comparison) damaged(ctx context.Context) error {
	g := c.generator(2)
	g.plain = true
	files, texts := map[string]*ruleFile{}, map[string]string{}
	for i := range c.options.broken {
		f := g.file(fmt.Sprintf("b%d", i))
		text := g.broken(f)
		if g.chance(3) {
			f.level = anyLevel()
			text = g.merging(f.domain)
		}
		ok, err := c.accepted(ctx, text)
		if err != nil {
			return err
		}
		if ok && strings.Contains(text, "domain: "+f.domain+"\n") {
			files[f.domain], texts[f.domain+".yaml"] = f, text
		}
	}
	if len(texts) == 0 {
		return nil
	}
	if err := c.servers.load(ctx, texts); err != nil {
		return err
	}
	for i := range c.options.broken {
		f := files[fmt.Sprintf("b%d", i)]
		if f == nil {
			continue
		}
		if err := c.peeks(ctx, g, f, texts[f.domain+".yaml"]); err != nil {
			return err
		}
	}
	return nil
}

// peeks asks both about single descriptors, without charging.
func (c *comparison) peeks(ctx context.Context, g *generator, f *ruleFile, text string) error {
	for range 20 {
		q := &rls.RateLimitRequest{Domain: f.domain, Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: g.entries(f.level), HitsAddend: wrapperspb.UInt64(0)}}}
		a, err := c.servers.peer.ask(ctx, q, false)
		if err != nil {
			return err
		}
		b, err := c.servers.ours.ask(ctx, q, false)
		if err != nil {
			return err
		}
		c.result.Requests++
		var what []string
		for _, d := range differences(a, b) {
			if name := unused(d, b); name != "" {
				c.result.seen(name, 1)
				continue
			}
			what = append(what, "the same file does not mean the same: "+d.say("envoyproxy/ratelimit", "Weir"))
		}
		if len(what) > 0 {
			c.report(finding{What: what, Rules: text, Requests: jsonOf([]*rls.RateLimitRequest{q})})
			return nil
		}
	}
	return nil
}

// unused is the class of a difference of a peek at a limit that was not used.
func unused(d difference, ours answer) string {
	switch {
	case d.Field == "metadata":
		return "D15"
	case d.Field == "duration_until_reset" && ours.Statuses[d.Descriptor].Reset == 1:
		return "D5"
	}
	return ""
}
