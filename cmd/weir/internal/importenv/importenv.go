// Package importenv reads the environment of an envoyproxy/ratelimit, and tells
// by which flags weir serve does the same. weir import-env prints them, and weir ratelimit starts the
// daemon by them.
package importenv

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/weir-limit/weir/internal/editdistance"
)

// Translate makes a plan of an environment. Empty variables are as if they were
// not set. The plan leaves out the flags that are given otherwise, and what stands for them counts as not needed. It fails with all that is wrong:
// one or several *InputError.
func Translate(env map[string]string, given ...string) (*Plan, error) {
	t := &translation{env: map[string]string{}, told: map[string]Note{}, given: given, otel: map[string]string{}}
	for name, value := range env {
		if value != "" {
			t.env[name] = value
		}
	}
	table := variables()
	known := make(map[string]int, len(table))
	var errs []error
	for i, v := range table {
		known[v.name] = i - len(table) // strangers come last
		errs = append(errs, v.check(t.env[v.name]))
	}
	for _, step := range []func() error{t.rules, t.doors, t.tls, t.store, t.statistics, t.answers, t.logs, t.traces} {
		errs = append(errs, step())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, v := range table {
		if value, set := t.env[v.name]; set {
			t.note(v.name, v.fate(value), v.say(value))
		}
	}
	t.strangers(known)
	notes := slices.SortedFunc(maps.Values(t.told), func(a, b Note) int {
		return cmp.Or(cmp.Compare(known[a.Name], known[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	return &Plan{Args: t.args, Notes: notes, OTel: t.otel, beside: truth(t.get("RUNTIME_WATCH_ROOT", "true"))}, nil
}

// Any is whether an environment has a variable of ratelimit.
func Any(env map[string]string) bool {
	return slices.ContainsFunc(group(""), func(name string) bool { return env[name] != "" })
}

// strangers tells of variables that look like ratelimit's.
func (t *translation) strangers(known map[string]int) {
	for name := range t.env {
		if _, ok := known[name]; ok || !looksAlike(name) {
			continue
		}
		text := "envoyproxy/ratelimit has no such variable"
		if near, ok := editdistance.Nearest(name, slices.Sorted(maps.Keys(known))); ok {
			text += "; did you mean " + near + "?"
		}
		t.note(name, Unknown, text)
	}
}

// OfService is whether a variable is one of those that Kubernetes and Docker make of the name of a service.
func OfService(name string) bool {
	return strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT_") || strings.HasSuffix(name, "_PORT")
}

// looksAlike is whether a name begins as ratelimit's do. Those of a service called redis do too, but they don't count.
func looksAlike(name string) bool {
	if OfService(name) {
		return false
	}
	for _, prefix := range []string{
		"REDIS_", "MEMCACHE_", "MEMCACHED_", "GRPC_SERVER_", "GRPC_CLIENT_", "GRPC_MAX_", "RUNTIME_", "CONFIG_GRPC_", "CONFIG_TYPE", "XDS_CLIENT_",
		"LIMIT_", "RATELIMIT_", "PROMETHEUS_", "USE_STATSD", "USE_DOG_STATSD", "USE_PROMETHEUS", "STATSD_", "STATS_", "TRACING_",
		"LOCAL_CACHE_", "CACHE_KEY_", "NEAR_LIMIT_", "EXPIRATION_JITTER_", "MERGE_DOMAIN_", "RESPONSE_DYNAMIC_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
