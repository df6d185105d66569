// Package rulefeed brings the rules of a rule database to a node, and again when
// they change, and keeps a copy of them on disk for a start without the
// database.
//
// The feed checks rules domain by domain: a domain that can't be used keeps the rules it had, and
// the other domains go on.
//
// rulefeed.go makes domains active one by one, watch.go hears of changes, copy.go keeps the last
// good copy. The daemon joins these rules with those of files (its database.go), and tells the
// other nodes what is active (its sharers.go).
package rulefeed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

const (
	// retryEvery is how often a database that is away is tried again.
	retryEvery = time.Second
	// openTime is how long opening it may take, with making its tables, and readTime
	// reading what was changed, or all of it: then it is away.
	openTime = 30 * time.Second
	readTime = 30 * time.Second
	// copyEvery is how often the copy is written while rules change. The database has the changes
	// that a killed node had not copied.
	copyEvery = 10 * time.Second
	// exceptionsEvery is how often the copy of the exceptions is written while they change: there may be a million.
	exceptionsEvery = time.Minute
)

// Options of a feed.
type Options struct {
	// Copy is the file of the last good copy. Empty: none is kept.
	Copy string
	// Check refuses rules by failing, such as rules.Set.Fits. Nil: all are taken.
	Check func(*rules.Set) error
	// Exceptions are kept as those of the database are. Nil: they are not followed.
	Exceptions *rules.Exceptions
}

// News is what a node should know.
type News struct {
	// Sets is the active rules, a set for each domain of the database, by name.
	Sets []*rules.Set
	// Candidates are the versions in shadow, but for those of domains in which limits are opened or tightened: what is active
	// there is not what they will stand beside.
	Candidates []Candidate
	// Changed is those of Sets that are new.
	Changed []*rules.Set
	// Revision is that of the database when these were read; Unread: they are a copy.
	Revision int64
	// Err says why these are not the rules that should be active; nil: they are.
	Err error
}

// Candidate is a version in shadow.
type Candidate struct {
	Item *rules.Item
	// Version is its number, and Beside that of the active one; 0: there is none.
	Version, Beside int64
}

// Unread is the revision of rules that were not read from a database.
const Unread = -1

// Feed follows a database. It is made by Open.
type Feed struct {
	place   string
	options Options
	store   atomic.Pointer[rulestore.Store]

	revision int64
	granted  int64 // the revision of the exceptions; Unread: they are a copy, or none
	domains  map[string]*domain
	away     error // why the database can't be asked
	uncopied error // why no copy could be written
	// unread are the exceptions that have no effect, because this Weir can't read their limits, and when they end: rulestore.MaxExceptions at most.
	unread map[weir.StateKey]weir.Instant
	dirty  bool // the copy is older than the rules
	copied time.Time
	// exceptionsDirty and exceptionsCopied are the same of the copy of exceptions.
	exceptionsDirty  bool
	exceptionsCopied time.Time
}

// domain is a domain as it is active here.
type domain struct {
	document rulestore.Document
	set      *rules.Set // nil: none was ever good
	trials   []Candidate
	until    time.Time // when an override ends; zero: never
	err      error     // why set is not what it should be
}

// Open makes a feed of a database, as rulestore.Open has it. It reads nothing
// yet.
func Open(place string, o Options) *Feed {
	if o.Check == nil {
		o.Check = func(*rules.Set) error { return nil }
	}
	return &Feed{place: place, options: o, revision: Unread, granted: Unread, domains: map[string]*domain{}, unread: map[weir.StateKey]weir.Instant{}}
}

// Store is the database, or nil while it was never reached.
func (f *Feed) Store() *rulestore.Store { return f.store.Load() }

// Close ends the database, behind Watch.
func (f *Feed) Close() error {
	if s := f.store.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// Load gives the rules to begin with: those of the database, or with News.Err
// the copy. It fails when there is neither, or another node serves the database.
func (f *Feed) Load(ctx context.Context) (News, error) {
	err := f.read(ctx)
	if err == nil {
		return f.news(nil), nil
	}
	if errors.Is(err, rulestore.ErrClaimed) || rulestore.IsKind(err, rulestore.Invalid) {
		return News{}, err
	}
	f.away = err
	c, bad := readCopy(f.options.Copy)
	if errors.Is(bad, fs.ErrNotExist) {
		return News{}, fmt.Errorf("%w; this node has no copy of its rules yet, and can't begin without it", err)
	}
	if bad != nil {
		return News{}, errors.Join(err, bad)
	}
	now := time.Now()
	for _, d := range c.Documents {
		f.take(d, now)
	}
	if f.options.Exceptions != nil {
		if err := f.readExceptions(now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.away = errors.Join(f.away, err)
		}
	}
	return f.news(nil), nil
}

// read brings what was changed in the database since the last time.
func (f *Feed) read(ctx context.Context) error {
	s, err := f.reach(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, readTime)
	defer stop()
	behind := f.revision
	p, err := s.Published(ctx, behind)
	if err == nil && p.Revision < behind { // a backup was restored
		behind = Unread
		p, err = s.Published(ctx, behind)
	}
	if err != nil {
		return err
	}
	if err := f.grant(ctx, s); err != nil {
		return err
	}
	if behind == Unread {
		f.forgetOthers(p.Changed)
	}
	now := time.Now()
	for _, d := range p.Changed {
		f.take(d, now)
	}
	for _, name := range p.Deleted {
		delete(f.domains, name)
	}
	f.dirty = f.dirty || f.revision != p.Revision
	f.revision = p.Revision
	return nil
}

// grant brings the exceptions that were changed in the database since the last time. They need not be of the same moment as the
// rules: one whose rule is not there yet waits for it.
func (f *Feed) grant(ctx context.Context, s *rulestore.Store) error {
	if f.options.Exceptions == nil {
		return nil
	}
	now := time.Now()
	g, err := s.Granted(ctx, f.granted, now)
	if err != nil {
		return err
	}
	if len(g.Changed) > 0 || g.Anew {
		f.options.Exceptions.Change(g.Changed, g.Anew, weir.InstantOf(now))
		f.exceptionsDirty = true
	}
	f.granted = g.Revision
	f.notice(&g)
	return nil
}

// notice remembers which exceptions can't be read, until they are changed.
func (f *Feed) notice(g *rulestore.Granted) {
	if g.Anew {
		clear(f.unread)
	}
	for i := range g.Changed {
		delete(f.unread, g.Changed[i].State)
	}
	if len(g.Unread) == 0 {
		return
	}
	ends := map[weir.StateKey]weir.Instant{}
	for i := range g.Changed {
		ends[g.Changed[i].State] = g.Changed[i].Until
	}
	for _, key := range g.Unread {
		f.unread[key] = ends[key]
	}
}

// unreadable says that exceptions have no effect; nil: all have one.
func (f *Feed) unreadable(now weir.Instant) error {
	maps.DeleteFunc(f.unread, func(_ weir.StateKey, until weir.Instant) bool { return until <= now })
	if len(f.unread) == 0 {
		return nil
	}
	return fmt.Errorf("%d exceptions of the rule database have limits that this Weir can't read, and no effect: run the Weir that made them", len(f.unread))
}

// reach opens the database unless it is open.
func (f *Feed) reach(ctx context.Context) (*rulestore.Store, error) {
	if s := f.store.Load(); s != nil {
		return s, nil
	}
	ctx, stop := context.WithTimeout(ctx, openTime)
	defer stop()
	s, err := rulestore.Open(ctx, f.place)
	if err != nil {
		return nil, err
	}
	if err := s.Claim(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	f.store.Store(s)
	return s, nil
}

// forgetOthers drops domains that came from a copy and are no more.
func (f *Feed) forgetOthers(documents []rulestore.Document) {
	still := map[string]bool{}
	for _, d := range documents {
		still[d.Name] = true
	}
	maps.DeleteFunc(f.domains, func(name string, _ *domain) bool { return !still[name] })
}

// take puts a domain in force as it is at now, if it can be.
func (f *Feed) take(document rulestore.Document, now time.Time) {
	d := &domain{document: document}
	if old := f.domains[document.Name]; old != nil {
		d.set = old.set
	}
	f.domains[document.Name] = d
	text, until, err := document.InForce(now)
	d.until = until
	if err == nil {
		err = d.parse(text, now, f.options.Check)
	}
	if err != nil {
		d.err = fmt.Errorf("domain %s of the rule database: %w", document.Name, err)
	}
}

func (d *domain) parse(text string, now time.Time, check func(*rules.Set) error) error {
	name := "database/" + d.document.Name + ".yaml"
	set, err := rules.Parse(name, []byte(text))
	if err == nil && !d.until.IsZero() {
		err = d.tell(set, now)
	}
	if err == nil {
		err = check(set)
	}
	if err != nil {
		return err
	}
	d.set = set
	if d.document.Candidate == "" {
		return nil
	}
	// A candidate that the store can't keep runs beside nothing.
	if set, err = rules.Parse(name, []byte(d.document.Candidate)); err == nil {
		err = check(set)
	}
	if err != nil {
		return fmt.Errorf("what is in shadow: %w", err)
	}
	versions := map[string]rulestore.Trial{}
	for _, t := range d.document.Trials {
		versions[t.Rule] = t
	}
	for _, item := range set.Items(d.document.Name) {
		if t, ok := versions[item.ID()]; ok {
			d.trials = append(d.trials, Candidate{item, t.Version, t.Beside})
		}
	}
	return nil
}

// tell tells rules by whom they are opened or tightened, and until when.
func (d *domain) tell(set *rules.Set, now time.Time) error {
	written, err := rules.Parse("database/"+d.document.Name+".yaml", []byte(d.document.File))
	if err != nil {
		return err
	}
	return set.Tell(written, func(item string) *rules.Temporary {
		o := d.document.Overrides.Of(item, now)
		if o == nil {
			return nil
		}
		return &rules.Temporary{Percent: o.Percent, Until: o.Until, Author: o.Author, Reason: o.Reason}
	})
}

// news is what is active now. changed is the domains that are new.
func (f *Feed) news(changed []string) News {
	n := News{Revision: f.revision}
	errs := []error{f.away, f.uncopied, f.unreadable(weir.InstantOf(time.Now()))}
	for _, name := range f.names() {
		d := f.domains[name]
		if d.set != nil {
			n.Sets = append(n.Sets, d.set)
		}
		if d.until.IsZero() {
			n.Candidates = append(n.Candidates, d.trials...)
		}
		errs = append(errs, d.err)
	}
	n.Err = errors.Join(errs...)
	for _, name := range changed {
		if d := f.domains[name]; d != nil && d.set != nil {
			n.Changed = append(n.Changed, d.set)
		}
	}
	return n
}

func (f *Feed) names() []string { return slices.Sorted(maps.Keys(f.domains)) }
