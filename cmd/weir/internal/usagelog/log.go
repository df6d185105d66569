package usagelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what waits.
const (
	// Every is how long an interval lasts, while there is room for what it has counted.
	Every = time.Second
	// MaxWaiting is how many bytes of ended intervals wait to be acknowledged. Beyond, the interval
	// that goes on lasts until there is room.
	MaxWaiting = 32 << 20
	// MaxBatch is how many bytes of records a Sink is given at once, but for one record that is
	// longer.
	MaxBatch = 4 << 20
	// appendTimeout is how long a Sink may take for a batch.
	appendTimeout = 10 * time.Second
	// tellAgain is after how long another reason is told.
	tellAgain = time.Minute
	// frozen is how long a Sink may take to end a batch when there is no more time. A file system that
	// is frozen never does.
	frozen = time.Second
	// retryFirst and retryMost are how long to wait before a batch is tried again.
	retryFirst, retryMost = 100 * time.Millisecond, 5 * time.Second
)

// Batch is some records of one interval.
type Batch struct {
	ID    string // of its first record
	Node  string // NODE/INCARNATION: batches of one are in order
	Lines []byte // a record in JSON each, and the end of the line
}

// Sink keeps records elsewhere. Its methods are called from one goroutine.
type Sink interface {
	// Append acknowledges a batch by returning nil: then it survives this process. After an error
	// nobody knows whether, and the same batch comes again.
	Append(ctx context.Context, b Batch) error
	// Close ends it. All that was appended is kept.
	Close() error
}

// Options say how to log.
type Options struct {
	// Node is this daemon's name.
	Node string
	// Hide is what to write in the place of a key; nil: keys are written as they are.
	Hide func(string) string
	// Changed is told when records can't be kept, when that is for another reason, and with nil when
	// they are again.
	Changed func(away error)

	every time.Duration // Every; tests do not wait so long
	room  int64         // MaxWaiting; the same
}

// Log counts and tells. Make it with New, and call Start and Stop once each.
type Log struct {
	sink    Sink
	options Options
	self    string // NODE/INCARNATION
	table   *table

	naming sync.Mutex
	rules  map[ID]*Rule
	gone   map[ID]*Rule // of which settlements were counted; until the interval ends

	sealing  sync.Mutex // held to end an interval
	interval int64      // the last that has ended
	since    time.Time  // when the interval that goes on began
	perRow   int        // bytes of a record, about, by the last interval

	mu      sync.Mutex
	queue   []*interval // that wait to be acknowledged, the oldest first
	waiting int64       // their bytes
	wake    chan struct{}

	stop    chan struct{} // closed to end the last interval
	stopped sync.WaitGroup
	ctx     context.Context // of the sink
	cancel  context.CancelFunc

	kept, failures, late atomic.Int64
	away                 string    // why records can't be kept, as it was told; empty: they can
	told                 time.Time // when
}

// interval is one that has ended.
type interval struct {
	id        string // NODE/INCARNATION/INTERVAL/
	lines     []byte
	rows      int
	decisions int64 // in it
	ended     time.Time
}

// New makes a log that is kept in sink.
func New(sink Sink, o Options) *Log {
	if o.every == 0 {
		o.every = Every
	}
	if o.room == 0 {
		o.room = MaxWaiting
	}
	if o.Changed == nil {
		o.Changed = func(error) {}
	}
	now := time.Now()
	l := &Log{
		sink: sink, options: o, table: newTable(), since: now.Round(0),
		self:  fmt.Sprintf("%s/%012x%08x", o.Node, now.UnixMilli(), rand.Uint32()),
		rules: map[ID]*Rule{}, gone: map[ID]*Rule{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Open is what counts for a rule, from now on or as before. It may be called on nil, and is nil
// then.
func (l *Log) Open(id ID) *Rule {
	if l == nil {
		return nil
	}
	l.naming.Lock()
	defer l.naming.Unlock()
	r := l.rules[id]
	if r == nil {
		r = &Rule{id, l, rand.Uint64()}
		l.rules[id] = r
	}
	return r
}

// Close forgets a rule that is gone. What is counted is told all the same.
func (l *Log) Close(id ID) {
	if l == nil {
		return
	}
	l.naming.Lock()
	defer l.naming.Unlock()
	delete(l.rules, id)
}

// Gone is what counts settlements for a rule that is gone.
func (l *Log) Gone(id ID) *Rule {
	l.naming.Lock()
	defer l.naming.Unlock()
	r := l.gone[id]
	if r == nil {
		r = &Rule{id, l, rand.Uint64()}
		l.gone[id] = r
	}
	return r
}

// shown is a key and its name as records tell them.
func (l *Log) shown(text, name string) (shownText, shownName string) {
	if l.options.Hide == nil || text == "" {
		return text, name
	}
	return l.options.Hide(text), ""
}

// Start begins to tell.
func (l *Log) Start() {
	l.stopped.Go(func() {
		tick := time.NewTicker(l.options.every)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				l.end(now, false)
			case <-l.stop:
				return
			}
		}
	})
	l.stopped.Go(l.send)
}

// Stop ends the last interval, and waits until all is acknowledged, or ctx is done; then it fails
// with what is lost. It leaves a Sink alone that is frozen. Nobody counts any more.
func (l *Log) Stop(ctx context.Context) error {
	l.end(time.Now(), true)
	close(l.stop)
	l.nudge()
	cut := context.AfterFunc(ctx, l.cancel)
	ended := l.ended()
	cut()
	l.cancel()
	if !ended {
		return errors.Join(l.lost(), errors.New("the last batch does not end: what it is written to is frozen"))
	}
	return errors.Join(l.lost(), l.sink.Close())
}

// ended waits until nothing is on its way, and no longer than frozen when there is no more time.
func (l *Log) ended() bool {
	ended := make(chan struct{})
	go func() {
		l.stopped.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-l.ctx.Done():
	}
	select {
	case <-ended:
		return true
	case <-time.After(frozen):
		return false
	}
}

// lost says what was not acknowledged, if anything.
func (l *Log) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, rows := int64(0), 0
	for _, i := range l.queue {
		lost, rows = lost+i.decisions, rows+i.rows
	}
	if rows == 0 {
		return nil
	}
	return fmt.Errorf("%d records of %d decisions were not acknowledged, and are lost", rows, lost)
}

// Discard closes a log that was never started.
func (l *Log) Discard() error { return l.sink.Close() }

// end ends the interval if there is room for it to wait, or if it is the last. One in which
// nothing was counted has no number.
func (l *Log) end(now time.Time, last bool) {
	l.sealing.Lock()
	defer l.sealing.Unlock()
	l.mu.Lock()
	full := l.waiting > 0 && l.waiting+l.table.bytes.Load() > l.options.room
	l.mu.Unlock()
	if full && !last {
		l.late.Add(1)
		return
	}
	l.naming.Lock()
	clear(l.gone)
	l.naming.Unlock()
	rows := l.table.take()
	from, to := l.since, now.Round(0) // by the clock that records tell, without the monotonic one
	if to.Before(from) {
		to = from // the clock was set back
	}
	l.since = to
	if len(rows) == 0 {
		return
	}
	l.interval++
	i := &interval{id: fmt.Sprintf("%s/%d/", l.self, l.interval), lines: make([]byte, 0, l.perRow*len(rows)), rows: len(rows), ended: now}
	h := headOf(i.id, i.rows, from, to)
	for n := range rows {
		i.lines = appendRecord(i.lines, &h, n, &rows[n])
		i.decisions += rows[n].Allowed + rows[n].Denied + rows[n].Impossible
	}
	l.perRow = len(i.lines)/i.rows + 8
	l.mu.Lock()
	l.queue = append(l.queue, i)
	l.waiting += int64(cap(i.lines))
	l.mu.Unlock()
	l.nudge()
}

// nudge wakes send.
func (l *Log) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// send has intervals kept, one after the other, until the last.
func (l *Log) send() {
	for l.ctx.Err() == nil {
		l.mu.Lock()
		var next *interval
		if len(l.queue) > 0 {
			next = l.queue[0]
		}
		l.mu.Unlock()
		if next == nil {
			select {
			case <-l.stop: // the last was queued before
				return
			default:
			}
			select {
			case <-l.wake:
			case <-l.ctx.Done():
			}
			continue
		}
		if !l.keep(next) {
			return
		}
		l.mu.Lock()
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.waiting -= int64(cap(next.lines))
		l.mu.Unlock()
		l.kept.Add(int64(next.rows))
	}
}

// keep has an interval kept, batch by batch, and tries each until it is. It is false when the log
// has no more time.
func (l *Log) keep(i *interval) bool {
	whole := Batch{ID: i.id + "0", Node: l.self, Lines: i.lines}
	for b := range whole.Split(MaxBatch) {
		if !l.try(b) {
			return false
		}
	}
	return true
}

// Split is the batch in parts of at most so many bytes, but for a record that is longer. The id of a
// part is that of its first record.
func (b Batch) Split(most int) iter.Seq[Batch] {
	return func(yield func(Batch) bool) {
		slash := strings.LastIndexByte(b.ID, '/') + 1
		row, _ := strconv.Atoi(b.ID[slash:])
		for rest := b.Lines; len(rest) > 0; {
			size := firstLines(rest, most)
			if !yield(Batch{ID: b.ID[:slash] + strconv.Itoa(row), Node: b.Node, Lines: rest[:size]}) {
				return
			}
			row += bytes.Count(rest[:size], endOfLine)
			rest = rest[size:]
		}
	}
}

var endOfLine = []byte{'\n'}

// firstLines is how many bytes the first lines have together, within most if one is.
func firstLines(lines []byte, most int) int {
	if len(lines) <= most {
		return len(lines)
	}
	if end := bytes.LastIndexByte(lines[:most], '\n'); end >= 0 {
		return end + 1
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// try has a batch kept, however often that takes.
func (l *Log) try(b Batch) bool {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		ctx, cancel := context.WithTimeout(l.ctx, appendTimeout)
		err := l.sink.Append(ctx, b)
		cancel()
		l.tell(err)
		if err == nil {
			return true
		}
		l.failures.Add(1)
		if !l.pause(pause) {
			return false
		}
	}
}

// pause waits before a batch is tried again, and is false when there is no more time. At the end of the
// daemon there is little: it tries at once what may be kept by now, and then as often as at first.
func (l *Log) pause(d time.Duration) bool {
	stop := l.stop
	select {
	case <-stop:
		stop, d = nil, retryFirst
	default:
	}
	select {
	case <-time.After(d):
	case <-stop:
	case <-l.ctx.Done():
		return false
	}
	return true
}

// tell says that records can't be kept, or can be again. While they can't it says a new reason, too: an operator who
// has mended the first has to hear of the second.
func (l *Log) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	now := time.Now()
	if (text != "") != (l.away != "") || text != l.away && now.Sub(l.told) >= tellAgain {
		l.away, l.told = text, now
		l.options.Changed(err)
	}
}

// Stats tell how a Log fares.
type Stats struct {
	Kept     int64         // records that were acknowledged
	Failures int64         // attempts that were not
	Late     int64         // intervals that did not end in time, for want of room
	Other    int64         // times that a key found no room in an interval
	Waiting  int64         // bytes of ended intervals that are not acknowledged
	Oldest   time.Duration // how long the oldest of them waits
}

// Stats is how it fares.
func (l *Log) Stats() Stats {
	s := Stats{Kept: l.kept.Load(), Failures: l.failures.Load(), Late: l.late.Load(), Other: l.table.other.Load()}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Waiting = l.waiting
	if len(l.queue) > 0 {
		s.Oldest = time.Since(l.queue[0].ended)
	}
	return s
}
