// Package auditlog brings into the audit of the rule database what is done without a change of it: resets and sign-ins. Whatever is done does
// not wait for the database, and works while that is away: its line waits here, and the log has it at once.
package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

const (
	// maxWaiting is how many lines wait for the database. A further one is lost.
	maxWaiting = 1000
	// maxBatch is how many lines are written at a time: changes of rules wait meanwhile.
	maxBatch = 100
	// writeTime is how long that may take.
	writeTime = 5 * time.Second
	// retryEvery is the pause between two tries.
	retryEvery = time.Second
	// wrongEvery is how often there is a line about wrong tokens.
	wrongEvery = 10 * time.Minute
	// maxAddresses is how many addresses it names. It counts those of others together.
	maxAddresses = 10
	// headEvery is how often the log is told the head of the audit.
	headEvery = time.Hour
)

// Options are what a Log stands on.
type Options struct {
	// Store is the rule database, or nil while it can't be reached. Nil: there is none, and the log alone has what is done.
	Store func() *rulestore.Store
	Log   *slog.Logger
}

// Log takes what is done. Its methods may be called from many goroutines, but Keep from one.
type Log struct {
	options Options
	news    chan struct{} // has one when a line came

	mu      sync.Mutex
	waiting []rulestore.Event
	lost    int64
	wrong   wrong

	// Of Keep.
	said   string         // why lines could not be written, as the log has it
	head   rulestore.Head // that the log has
	headAt time.Time      // when it is to be looked at again
}

// wrong is wrong tokens that no line tells of yet.
type wrong struct {
	since time.Time // the first; zero: there is none
	count int64
	from  map[string]int64
}

// New makes a Log.
func New(o Options) *Log { return &Log{options: o, news: make(chan struct{}, 1)} }

// Add takes what an actor did, or was refused.
func (l *Log) Add(by rulestore.Actor, e rulestore.Event) {
	e = e.By(by)
	e.At = time.Now()
	// Without Reason, which may have a client's name: no log has one.
	log := l.options.Log.With("action", e.Action, "actor", e.Actor, "token", e.Token, "address", e.Address, "domain", e.Domain, "rule", e.Rule, "refused", e.Refused)
	log.Info("audit")
	if l.options.Store == nil {
		return
	}
	l.mu.Lock()
	full := len(l.waiting) >= maxWaiting
	if full {
		l.lost++
	} else {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	if full {
		log.Error("too many lines wait for the audit; this one is in the log only")
		return
	}
	select {
	case l.news <- struct{}{}:
	default: // it is awake already
	}
}

// Wrong takes that a wrong token came from an address. Lines about them are few, however many come.
func (l *Log) Wrong(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.wrong
	if w.since.IsZero() {
		w.since, w.from = time.Now(), map[string]int64{}
	}
	w.count++
	if _, known := w.from[address]; known || len(w.from) < maxAddresses {
		w.from[address]++
	}
}

// Keep writes lines as they come, until ctx ends.
func (l *Log) Keep(ctx context.Context) {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		l.turn(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-l.news:
		case <-tick.C:
		}
	}
}

// turn does what there is to do at now.
func (l *Log) turn(ctx context.Context, now time.Time) {
	l.addWrong(now.Add(-wrongEvery))
	said := ""
	// One that is given up half way may have been written, and Close would write it again.
	if err := l.write(context.WithoutCancel(ctx)); err != nil {
		said = err.Error()
	}
	if said != "" && said != l.said && ctx.Err() == nil {
		l.options.Log.Warn("lines of the audit wait until the rule database takes them", "error", said)
	}
	l.said = said
	l.sayHead(ctx, now)
}

// Close writes what waits, and fails when it is lost.
func (l *Log) Close(ctx context.Context) error {
	l.addWrong(time.Now())
	err := l.write(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	l.lost += int64(n)
	l.waiting = nil
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d are in the log only: %w", n, err)
}

// Stats is how many lines wait, and were lost.
type Stats struct{ Waiting, Lost int64 }

// Stats tells how it is now.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{int64(len(l.waiting)), l.lost}
}

// addWrong makes a line of wrong tokens of which the first came before a time.
func (l *Log) addWrong(before time.Time) {
	l.mu.Lock()
	w := l.wrong
	if w.since.IsZero() || w.since.After(before) {
		l.mu.Unlock()
		return
	}
	l.wrong = wrong{}
	l.mu.Unlock()
	var from rulestore.Actor
	addresses := slices.SortedFunc(maps.Keys(w.from), func(a, b string) int {
		if w.from[a] != w.from[b] {
			return int(w.from[b] - w.from[a])
		}
		return strings.Compare(a, b)
	})
	if len(addresses) == 1 {
		from.Address = addresses[0]
	}
	others := w.count
	var said []string
	for _, a := range addresses {
		others -= w.from[a]
		said = append(said, fmt.Sprintf("%d from %s", w.from[a], a))
	}
	if others > 0 {
		said = append(said, fmt.Sprintf("%d from others", others))
	}
	l.Add(from, rulestore.Event{
		Action: rulestore.SignInRefused, Refused: "no such token, or it has ended",
		Reason: fmt.Sprintf("wrong tokens since %s: %s", w.since.UTC().Format(time.RFC3339), strings.Join(said, ", ")),
	})
}

var errAway = errors.New("the rule database was not reached yet")

// write writes all lines that wait.
func (l *Log) write(ctx context.Context) error {
	for {
		l.mu.Lock()
		batch := slices.Clone(l.waiting[:min(len(l.waiting), maxBatch)])
		l.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		store := l.options.Store()
		if store == nil {
			return errAway
		}
		within, stop := context.WithTimeout(ctx, writeTime)
		err := store.Record(within, batch)
		stop()
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.waiting = slices.Delete(l.waiting, 0, len(batch))
		l.mu.Unlock()
	}
}

// sayHead has the log say the head of the audit, where it can't be changed with the database.
func (l *Log) sayHead(ctx context.Context, now time.Time) {
	if l.options.Store == nil || now.Before(l.headAt) {
		return
	}
	store := l.options.Store()
	if store == nil {
		return
	}
	within, stop := context.WithTimeout(ctx, writeTime)
	defer stop()
	last, err := store.Audit(within, rulestore.Audited{Before: math.MaxInt64, Limit: 1})
	if err != nil || len(last) == 0 {
		return // else in a second
	}
	l.headAt = now.Add(headEvery)
	if last[0].Head() != l.head {
		l.head = last[0].Head()
		l.options.Log.Info("head of the audit", "head", l.head.String())
	}
}
