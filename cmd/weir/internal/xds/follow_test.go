package xds

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
	"github.com/weir-limit/weir/rules"
)

// impatient is a pace for tests.
func impatient() pace {
	p := usualPace()
	p.again = weir.Backoff{First: 10 * time.Millisecond, Most: 50 * time.Millisecond}
	p.refuse = weir.Backoff{First: 10 * time.Millisecond, Most: 50 * time.Millisecond}
	p.between = 10 * time.Millisecond
	return p
}

// node's rules, as a daemon has them.
type follower struct {
	t    testing.TB
	s    *Source
	mu   sync.Mutex
	set  *rules.Set
	err  error
	told int // how often anything was
	then func()
	end  func() // of watching
}

// stop ends it.
func (f *follower) stop() { f.end() }

// heard has then called whenever anything is told.
func (f *follower) heard(then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.then = then
}

// follow loads the rules of a URL and watches them. more is options of the URL, or hold, silence and refuse: what tests
// have less patience with.
func follow(t testing.TB, c *xdstest.Control, more ...string) *follower {
	t.Helper()
	f, err := tryFollow(t, c, more...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func tryFollow(t testing.TB, c *xdstest.Control, more ...string) (*follower, error) {
	t.Helper()
	url := "xds://" + c.Address + "?node=" + xdstest.Node
	quick, hold := impatient(), 500*time.Millisecond
	more = slices.DeleteFunc(slices.Clone(more), func(o string) bool {
		name, text, _ := strings.Cut(o, "=")
		d, _ := time.ParseDuration(text)
		switch name {
		case "hold":
			hold = d
		case "silence":
			quick.silence = d
		case "refuse":
			quick.refuse = weir.Backoff{First: d, Most: d}
		default:
			return false
		}
		return true
	})
	if !slices.ContainsFunc(more, func(o string) bool { return strings.HasPrefix(o, "last=") }) {
		more = append(more, "last="+filepath.Join(t.TempDir(), "last"))
	}
	s, err := Open(url+"&"+strings.Join(more, "&"), Options{NotKept: func(err error) { t.Log(err) }})
	if err != nil {
		return nil, err
	}
	s.pace, s.book.hold = quick, hold
	f := &follower{t: t, s: s}
	if f.set, f.err = s.Load(t.Context()); f.set == nil && f.err != nil {
		return nil, f.err
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		s.Watch(ctx, func(set *rules.Set, err error) {
			f.mu.Lock()
			f.told++
			if f.err = err; set != nil {
				f.set = set
			}
			then := f.then
			f.mu.Unlock()
			if then != nil {
				then()
			}
		})
	})
	f.end = func() {
		stop()
		watching.Wait()
	}
	t.Cleanup(f.end)
	return f, nil
}

func (f *follower) now() (*rules.Set, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set, f.err
}

// rules is the rules that are active, as NAME LIMIT, between commas.
func (f *follower) rules() string {
	set, _ := f.now()
	return told(set)
}

func told(set *rules.Set) string {
	var all []string
	for _, r := range set.Rules() {
		all = append(all, r.Name+" "+r.Limit.String())
	}
	return strings.Join(all, ", ")
}

// want waits until these rules are active, and nothing is wrong, or what is has this in its text.
func (f *follower) want(rules, wrong string) {
	f.t.Helper()
	xdstest.Soon(f.t, func() string {
		_, err := f.now()
		switch is := f.rules(); {
		case is != rules:
			return fmt.Sprintf("active: %q, want %q; error %v", is, rules, err)
		case wrong == "" && err != nil, wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			return fmt.Sprintf("wrong: %v, want %q", err, wrong)
		}
		return ""
	})
}
