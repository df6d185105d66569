package xds

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-limit/weir/rules"
)

const (
	// typeURL names what is asked for.
	typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
	// maxResources is how many domains an answer may have, as many as an export has documents.
	maxResources = 10_000
	// holdTime is how long domains stay that an earlier stream has named, and the present one has not yet.
	holdTime = 30 * time.Second
)

// book is the domains of a control plane, as they are active here. It knows no network and reads no clock.
//
// Each answer of a stream has all resources, so a domain that is not among them is gone. That is certain
// of what the same stream has named before: it is removed at once. A control plane that was started anew
// answers before it has read all that it knows: Envoy Gateway sends nothing, or the domains of its first
// Gateway, and the others a moment later. So what only an earlier stream has named, or the copy on disk, stays
// until the present stream has gone on for holdTime without it.
type book struct {
	hold    time.Duration // holdTime
	domains map[string]*domain
	stream  int       // the number of the present one; 0: there was none, and domains are of the copy
	first   time.Time // when it was first taken from; zero: not yet
}

// domain is a resource that is active.
type domain struct {
	resource *anypb.Any
	name     string // of the resource
	set      *rules.Set
	stream   int // that named it last
}

// open begins another stream.
func (b *book) open() { b.stream, b.first = b.stream+1, time.Time{} }

// read reads an answer's resources. Those that are as before are not parsed again. It fails with a *rules.Error that
// has the findings of all resources that are bad.
func (b *book) read(resources []*anypb.Any) (map[string]*domain, error) {
	if len(resources) > maxResources {
		return nil, &rules.Error{Findings: []rules.Finding{finding("resources", fmt.Sprintf("there are %d resources, and may be %d", len(resources), maxResources))}}
	}
	now := make(map[string]*domain, len(resources))
	var bad []rules.Finding
	for i, resource := range resources {
		d, name, findings := b.readOne(i, resource)
		if other := now[name]; findings == nil && other != nil {
			findings = []rules.Finding{finding(fileName(d.name), fmt.Sprintf("duplicate domain %q, also of the resource %q; give it one resource", name, other.name))}
		}
		if findings != nil {
			bad = append(bad, findings...)
			continue
		}
		now[name] = d
	}
	if bad != nil {
		return nil, &rules.Error{Findings: bad}
	}
	return now, nil
}

// readOne reads the resource with the number i.
func (b *book) readOne(i int, resource *anypb.Any) (d *domain, name string, bad []rules.Finding) {
	numbered := fmt.Sprintf("xds/#%d", i+1)
	if resource.GetTypeUrl() != typeURL {
		return nil, "", []rules.Finding{finding(numbered, fmt.Sprintf("the resource is a %q; only %s was asked for", resource.GetTypeUrl(), typeURL))}
	}
	var c rlsv3.RateLimitConfig
	if err := proto.Unmarshal(resource.GetValue(), &c); err != nil {
		return nil, "", []rules.Finding{finding(numbered, "the resource can't be decoded: "+err.Error())}
	}
	name = c.GetDomain()
	if old := b.domains[name]; old != nil && bytes.Equal(old.resource.GetValue(), resource.GetValue()) {
		return &domain{old.resource, old.name, old.set, b.stream}, name, nil
	}
	file := fileName(c.GetName())
	if c.GetName() == "" {
		file = fileName(name)
	}
	if depth(c.GetDescriptors(), 0) > maxDepth {
		return nil, name, []rules.Finding{finding(file, fmt.Sprintf("over %d descriptors stand in each other; a request has at most %d entries", maxDepth, rules.MaxEntries))}
	}
	set, err := rules.Parse(file, ruleFile(&c))
	if err != nil {
		return nil, name, findingsOf(err)
	}
	return &domain{resource, c.GetName(), set, b.stream}, name, nil
}

// fileName is what findings call a resource.
func fileName(resource string) string { return "xds/" + resource }

func finding(file, text string) rules.Finding {
	return rules.Finding{File: file, Line: 1, Column: 1, Text: strings.ReplaceAll(text, "\n", " ")}
}

// findingsOf is what the reader of rule files has found.
func findingsOf(err error) []rules.Finding {
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		return bad.Findings
	}
	return []rules.Finding{finding("resources", err.Error())}
}

// next is what the domains are once those that were read are taken: they, and what stays of earlier streams.
func (b *book) next(read map[string]*domain, now time.Time) map[string]*domain {
	all := maps.Clone(read)
	if b.first.IsZero() || now.Before(b.first.Add(b.hold)) {
		for name, d := range b.domains {
			if all[name] == nil && d.stream != b.stream {
				all[name] = d
			}
		}
	}
	return all
}

// take makes these the domains, and tells whether that changes any.
func (b *book) take(domains map[string]*domain, now time.Time) (changed bool) {
	changed = !maps.EqualFunc(b.domains, domains, func(a, b *domain) bool { return a.set == b.set })
	if b.domains = domains; b.first.IsZero() {
		b.first = now
	}
	return changed
}

// held is the names of the domains that stay though the present stream has not named them, sorted, and until when. There are
// none before its first answer.
func (b *book) held() (names []string, until time.Time) {
	if b.first.IsZero() {
		return nil, until
	}
	for name, d := range b.domains {
		if d.stream != b.stream {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, b.first.Add(b.hold)
}

// expired is the domains without those that are held, when their time is over.
func (b *book) expired() map[string]*domain {
	all := maps.Clone(b.domains)
	maps.DeleteFunc(all, func(_ string, d *domain) bool { return d.stream != b.stream })
	return all
}

// join makes one set of domains, in the order of their names.
func join(domains map[string]*domain) (*rules.Set, error) {
	sets := make([]*rules.Set, 0, len(domains))
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		sets = append(sets, domains[name].set)
	}
	return rules.Join(sets...)
}

// resources is those of the domains, by name.
func (b *book) resources() (all []*anypb.Any) {
	for _, name := range slices.Sorted(maps.Keys(b.domains)) {
		all = append(all, b.domains[name].resource)
	}
	return all
}
