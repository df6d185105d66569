package logstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sleep"
)

const (
	// openTimeout is how long it may take to open the log, without what is read back.
	openTimeout = 10 * time.Second
	// madeTries is how often a log is looked for that was just made.
	madeTries = 20
	// watchEvery is how often a process looks whether the log is still the one that it opened.
	watchEvery = 5 * time.Second
)

// opened is a log while it is read.
type opened struct {
	eventLog

	shape   shape
	beating []atomic.Bool // by partition: a beat is in flight
	ahead   atomic.Int64  // how far this machine's clock is ahead of the log's, in microseconds
}

// open finds the log or makes it, appends a first beat to each partition, and begins to read from as long
// ago as back. All is read when it has come to these beats.
func (s *Store) open(ctx context.Context, back time.Duration) (_ *opened, _ []part, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	log, err := s.place.open()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			log.close()
		}
	}()
	o := &opened{eventLog: log}
	if o.shape, err = findOrMake(ctx, log); err != nil {
		return nil, nil, err
	}
	o.beating = make([]atomic.Bool, o.shape.partitions)
	if err := s.fits(ctx, log, back); err != nil {
		return nil, nil, err
	}
	beat := s.beatNow()
	at, stamp, err := log.first(ctx, o.shape.partitions, beat.Line())
	if err != nil {
		return nil, nil, err
	}
	o.compare(stamp, s.now())
	since := (s.now() - weir.Instant(o.ahead.Load()) - weir.Instant(back.Microseconds())).Time()
	from, missing, err := log.begin(ctx, since, at)
	if err != nil {
		return nil, nil, err
	}
	if missing > time.Second {
		s.warn("the log begins later than the rules look back: what was used before is forgotten", "missing", missing.Round(time.Second))
	}
	parts := make([]part, len(at))
	for p := range parts {
		parts[p].next, parts[p].goal = from[p], at[p]+1
	}
	return o, parts, nil
}

// findOrMake is what the log is, which is made where there is none.
func findOrMake(ctx context.Context, log eventLog) (shape, error) {
	for range madeTries { // brokers tell of a new one a little later
		found, err := log.find(ctx)
		switch {
		case err != nil:
			return shape{}, err
		case found.partitions > 0:
			return found, nil
		}
		if err := log.make(ctx); err != nil {
			return shape{}, err
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return shape{}, err
		}
	}
	return shape{}, errors.New("the log was made, and the brokers don't know it")
}

// fits refuses a log that loses counts, and warns of what is unwise. A user who may not look at the
// settings gets none of this.
func (s *Store) fits(ctx context.Context, log eventLog, back time.Duration) error {
	set, err := log.settings(ctx, back)
	if err != nil {
		return nil //nolint:nilerr // the store works without it
	}
	for _, f := range set.findings {
		if f.Fault {
			return errors.New(f.Text)
		}
		s.warn(f.Text)
	}
	return nil
}

// warn tells an operator of the log.
func (s *Store) warn(text string, args ...any) {
	//nolint:sloglint // each caller has a constant, or findings of how the log is set up
	s.said.Warn(text, append([]any{"log", s.place.kind + " " + s.place.name}, args...)...)
}

// watch waits until the log is another than the one that was opened, or has more partitions, or its client
// has given up.
func (s *Store) watch(ctx context.Context, log *opened) {
	for sleep.For(ctx, watchEvery) == nil {
		asking, cancel := context.WithTimeout(ctx, watchEvery)
		found, err := log.find(asking)
		cancel()
		switch {
		case errors.Is(err, errOver):
			s.warn("the log is opened again", "error", err)
		case err != nil || found == log.shape:
			continue // what is away is told by those that read
		case found.partitions == 0:
			s.warn("the log was deleted; it is made again, and what was used before is forgotten by processes that start")
		case found.id != log.shape.id:
			s.warn("the log was deleted and made again; what was used before is forgotten by processes that start")
		default:
			s.warn("the log has other partitions now; it is read back", "partitions", found.partitions, "before", log.shape.partitions)
		}
		return
	}
}

// compare takes a message that was read when it was new: that tells the clocks apart.
func (o *opened) compare(stamp time.Time, now weir.Instant) {
	o.ahead.Store(int64(now - weir.InstantOf(stamp)))
}

// local is when a message was appended, by this machine's clock. A log's may have milliseconds.
func (o *opened) local(stamp time.Time) weir.Instant {
	return weir.InstantOf(stamp.Add(time.Millisecond)) + weir.Instant(o.ahead.Load())
}

// finding is one of an operator's.
func finding(fault bool, format string, args ...any) Finding {
	return Finding{fault, fmt.Sprintf(format, args...)}
}
