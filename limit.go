package weir

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of a limit. Within them every decision is exact: no product of two of
// them leaves 128 bits, and no state leaves the 53 bits that a double holds exactly,
// so that a script in Redis decides as Go does. Spec.Limit refuses what is beyond.
const (
	// MaxCount is the largest count, burst, debt, queue and cost.
	MaxCount = 1 << 30
	// MaxWindowCount is the largest count of a fixed window. It may be larger than
	// MaxCount, as a window only adds events up and never turns them into time.
	MaxWindowCount = 1<<32 - 1
	// MaxLogCount is the largest count of a sliding log, which keeps a stamp an event.
	MaxLogCount = 10_000
	// MaxSubWindows is the largest number of sub-windows of a sliding window.
	MaxSubWindows = 60
	// MaxPeriod is the longest period, and the longest ttl of a permit.
	MaxPeriod = 407 * 24 * time.Hour
	// MaxDrain is the longest time that a bucket or queue may take to drain. It is
	// just below 2^51 microseconds. The last instant is 2^52, so a state that runs
	// ahead of it by MaxDrain still lies below 2^53.
	MaxDrain = 71 * 365 * 24 * time.Hour
	// MaxWarmUp is the longest warm-up.
	MaxWarmUp = 24 * time.Hour
	// MaxCold is the largest cold factor of a warm-up.
	MaxCold = 100
)

// Algorithm says how a limit counts. TokenBucket and LeakyBucket are other
// names of GCRA and decide alike: the tokens that are left and the time that GCRA runs
// ahead are the same number, told from two sides. The name that was written is kept, so
// that a limit reads back as its author wrote it.
type Algorithm uint8

// The algorithms. docs/algorithms.md compares them.
const (
	GCRA Algorithm = iota
	TokenBucket
	LeakyBucket
	LeakyQueue
	FixedWindow
	SlidingLog
	SlidingWindow
	WarmUp
	Concurrent
)

var algorithmNames = [...]string{
	"gcra", "token-bucket", "leaky-bucket", "leaky-queue", "fixed-window",
	"sliding-log", "sliding-window", "warm-up", "concurrent",
}

// String is the algorithm's word in limit text.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

// Calendar is a civil period of a fixed window, which begins and ends by the
// clock on the wall of a zone. A week begins on Monday.
type Calendar uint8

// The civil periods; NoCalendar is a period of fixed length.
const (
	NoCalendar Calendar = iota
	Day
	Week
	Month
	Year
)

var calendarNames = [...]string{"", "day", "week", "month", "year"}

// String is the unit of the civil period in limit text.
func (c Calendar) String() string {
	if int(c) < len(calendarNames) {
		return calendarNames[c]
	}
	return fmt.Sprintf("calendar(%d)", uint8(c))
}

// nominal is the length that stands for a civil period where one number is
// asked for. The windows themselves are as long as the calendar makes them: a month
// 28 to 31 days, and a day 23 or 25 hours where clocks change.
func (c Calendar) nominal() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{0, day, 7 * day, 30 * day, 365 * day}[c]
}

// Mode is how strictly GCRA and the sliding window hold to their count.
type Mode uint8

// The modes. A sliding window is Strict when nothing is said; GCRA is not.
const (
	DefaultMode Mode = iota
	// Strict makes GCRA slower, so that no period passes more than the count. A strict
	// sliding window adds the event before it tests its estimate: the estimate never
	// exceeds the count, though the true number may; Limit.Bound says how far.
	Strict
	// Relaxed tests the estimate before the event is added, whatever the event costs.
	Relaxed
	// Conservative counts the oldest sub-window in full, so that no period passes more
	// than the count.
	Conservative
)

var modeNames = [...]string{"", "strict", "relaxed", "conservative"}

// String is the mode's word in limit text.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Spec describes a limit. A zero field means the default, except Count, whose
// 0 denies all, and Period, which every algorithm but Concurrent needs.
//
// A field that the algorithm has no use for must be zero: Limit refuses it by name,
// because a word without effect would promise what nobody keeps.
type Spec struct {
	// Count is the events a period, or the permits of Concurrent: 0…MaxCount, for a
	// fixed window 0…MaxWindowCount, for a sliding log 0…MaxLogCount.
	Count int64
	// Period is 1 µs…MaxPeriod in whole microseconds. Leave it 0 with a Calendar;
	// Limit.Spec then has the nominal length there, which decides nothing.
	Period    time.Duration
	Algorithm Algorithm

	// Burst (GCRA family) is the events that may pass at once after rest, 1…MaxCount;
	// 0 means Count. It does not change the pace, which is Count a Period.
	Burst int64
	// Initial (GCRA family) is what a key never seen starts with, 0…Burst; nil means
	// Burst. It is a pointer since 0 is a value: such a key starts empty, and its
	// first denial starts its clock.
	Initial *int64
	// Debt (GCRA family) is how far below nothing one take may go, 0…MaxCount. Only a
	// take that finds one whole event left may go there, so that debt is no second
	// burst: all later takes wait until it is paid.
	Debt int64
	// Queue (LeakyQueue) is how many events may wait, 0…MaxCount; nil means Count. One
	// more goes at once.
	Queue *int64

	// Calendar (FixedWindow) takes a civil period in place of Period.
	Calendar Calendar
	// Zone (FixedWindow with a Calendar) is where the calendar hangs; nil means UTC. It
	// must be a zone of the time zone database, for the text has only its name.
	Zone *time.Location
	// Anchored (FixedWindow) opens a window with the key's first event, and not with
	// the clock.
	Anchored bool
	// SubWindows (SlidingWindow) is the parts of the period, 1…MaxSubWindows; 0 means 1.
	// They must divide the period into whole microseconds.
	SubWindows int64
	// Mode is Strict for GCRA, any for SlidingWindow, and default for all others.
	Mode Mode
	// CountDenied (windows and log) counts what is denied, too: a client that keeps on
	// asking stays denied.
	CountDenied bool

	// WarmUp (WarmUp) is how long it takes from cold to full pace, 1 µs…MaxWarmUp.
	WarmUp time.Duration
	// Cold (WarmUp) is how many times slower a cold start is, 2…MaxCold; 0 means 3.
	Cold int64
	// TTL (Concurrent) is when a permit frees itself, 1 µs…MaxPeriod; 0 means a minute.
	TTL time.Duration
}

// Limit is how many events may pass in how long, by which algorithm. It is
// made by ParseLimit or Spec.Limit, never changes, and may be shared between
// goroutines. Its text form is the contract between programs, rule files and
// the daemon.
type Limit struct {
	// spec has all defaults filled in, and nobody else has its pointers: that is why a
	// Limit can't change after it is made.
	spec Spec
	// text is the shortest text of spec. Two limits of the same text decide alike.
	text string
	// algo decides. It is made of spec alone, so it needs no lock either.
	algo algorithm
}

// Spec is the description of l with every default filled in: its Limit is as l.
// Changing it does not change l.
func (l *Limit) Spec() Spec {
	s := l.spec
	if s.Initial != nil {
		s.Initial = new(*s.Initial)
	}
	if s.Queue != nil {
		s.Queue = new(*s.Queue)
	}
	return s
}

// Algorithm is how l counts.
func (l *Limit) Algorithm() Algorithm { return l.spec.Algorithm }

// String is the limit as text in its shortest form: ParseLimit gives the same
// limit back.
func (l *Limit) String() string { return l.text }

// Limit checks the description and makes the limit. The error names every
// fault and what to write instead. s stays as it was: the limit has copies of what its
// pointers lead to.
func (s Spec) Limit() (*Limit, error) {
	if err := errors.Join(s.faults()...); err != nil {
		return nil, err
	}
	s.fill()
	if err := s.drains(); err != nil {
		return nil, err
	}
	l := &Limit{spec: s, text: s.print()}
	l.algo = s.algorithm()
	return l, nil
}

// algorithm makes what decides. s is checked and filled.
func (s *Spec) algorithm() algorithm {
	switch s.Algorithm {
	case LeakyQueue:
		return newLeakyQueue(s)
	case FixedWindow:
		return newFixedWindow(s)
	case SlidingLog:
		return newSlidingLog(s)
	case SlidingWindow:
		return newSlidingWindow(s)
	case WarmUp:
		return newWarmUp(s)
	case Concurrent:
		return newConcurrent(s)
	case GCRA, TokenBucket, LeakyBucket:
	}
	return newGCRA(s)
}

func (a Algorithm) bucket() bool { return a <= LeakyBucket }

// NeverOver is whether l says by its mode that no period passes more than its count:
// strict buckets and conservative windows.
func (l *Limit) NeverOver() bool {
	return l.spec.Algorithm.bucket() && l.spec.Mode == Strict || l.spec.Mode == Conservative
}

// Family is a by the first of its names: those that decide alike have one.
func (a Algorithm) Family() Algorithm {
	if a.bucket() {
		return GCRA
	}
	return a
}

// fill puts the defaults into a checked Spec, and makes it its own: no pointer of it leads
// to what a caller could change later. A filled Spec filled again stays as it is.
func (s *Spec) fill() {
	if s.Initial != nil {
		s.Initial = new(*s.Initial)
	}
	if s.Queue != nil {
		s.Queue = new(*s.Queue)
	}
	switch {
	case s.Algorithm.bucket():
		if s.Burst == 0 {
			s.Burst = s.Count
		}
		if s.Initial == nil {
			s.Initial = new(s.Burst)
		}
	case s.Algorithm == LeakyQueue:
		if s.Queue == nil {
			s.Queue = new(s.Count)
		}
	case s.Algorithm == SlidingWindow:
		s.SubWindows = max(s.SubWindows, 1)
		if s.Mode == DefaultMode {
			s.Mode = Strict
		}
	case s.Algorithm == FixedWindow && s.Calendar != NoCalendar:
		s.Period = s.Calendar.nominal()
		if s.Zone == nil && !s.Anchored {
			s.Zone = time.UTC
		}
	case s.Algorithm == WarmUp:
		if s.Cold == 0 {
			s.Cold = 3
		}
	case s.Algorithm == Concurrent:
		if s.TTL == 0 {
			s.TTL = time.Minute
		}
	}
}

// pace is the interval of the GCRA family: the exact one, Period/Count, or for a
// strict limit a longer one in whole microseconds that keeps any period to the count.
//
// A bucket passes at most burst and one more each interval: in a period of P
// microseconds burst + ⌊(P − 1)/interval⌋. With an interval of at least
// P/(count − burst + 1) the second term is at most count − burst, so the sum is at
// most count. faults sees to a burst of at most the count, so free is at least 1.
func (s *Spec) pace() interval {
	if s.Mode == Strict && s.Count > 0 {
		free := s.Count - s.Burst + 1
		us := (int64(s.Period/time.Microsecond) + free - 1) / free
		return interval{num: uint64(us), den: 1}
	}
	return newInterval(s.Period, s.Count)
}

// faults lists what is wrong with s, each with what to do instead.
func (s *Spec) faults() []error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if int(s.Algorithm) >= len(algorithmNames) || int(s.Mode) >= len(modeNames) || int(s.Calendar) >= len(calendarNames) {
		return []error{errors.New("unknown algorithm, mode or calendar: use the constants of this package")}
	}
	most := int64(MaxCount)
	switch s.Algorithm {
	case FixedWindow:
		most = MaxWindowCount
	case SlidingLog:
		most = MaxLogCount
	case GCRA, TokenBucket, LeakyBucket, LeakyQueue, SlidingWindow, WarmUp, Concurrent:
	}
	fault(s.Count < 0 || s.Count > most, "the count of %s is %d; it must be 0…%d%s", s.Algorithm, s.Count, most, s.otherwise())
	set := func(n *int64) bool { return n != nil && *n != 0 }
	fault(s.Count == 0 && (s.Burst != 0 || set(s.Initial) || s.Debt != 0 || set(s.Queue)),
		"a count of 0 denies all; leave out burst, initial, debt and queue")
	errs = append(errs, s.periodFaults()...)
	errs = append(errs, s.misplaced()...)

	burst := s.Burst
	if burst == 0 {
		burst = s.Count
	}
	fault(s.Burst < 0 || s.Burst > MaxCount, "burst %d must be 1…%d", s.Burst, MaxCount)
	fault(s.Initial != nil && (*s.Initial < 0 || *s.Initial > burst), "initial must be 0…%d, the burst", burst)
	fault(s.Debt < 0 || s.Debt > MaxCount, "debt %d must be 0…%d", s.Debt, MaxCount)
	fault(s.Queue != nil && (*s.Queue < 0 || *s.Queue > MaxCount), "queue must be 0…%d", MaxCount)
	if s.Mode == Strict && s.Algorithm.bucket() {
		fault(s.Burst > s.Count, "strict needs a burst of at most the count, %d", s.Count)
		fault(s.Debt != 0 || s.Initial != nil && *s.Initial != burst, "strict excludes debt and initial; leave them out, or leave out strict")
	}
	return errs
}

// otherwise tells whose count is too large for its algorithm what to take.
func (s *Spec) otherwise() string {
	if s.Algorithm == SlidingLog && s.Count > MaxLogCount {
		return "; take sliding-window for more"
	}
	return ""
}

func (s *Spec) periodFaults() []error {
	if s.Algorithm == Concurrent {
		if s.Period != 0 {
			return []error{errors.New("concurrent permits have no period; write N concurrent")}
		}
		return nil
	}
	if s.Calendar != NoCalendar && s.Algorithm == FixedWindow {
		if s.Period != 0 && s.Period != s.Calendar.nominal() {
			return []error{errors.New("a fixed window has a period or a calendar, not both")}
		}
		return nil
	}
	if s.Period < time.Microsecond || s.Period > MaxPeriod || s.Period%time.Microsecond != 0 {
		return []error{fmt.Errorf("the period is %v; it must be 1us…407day in whole microseconds", s.Period)}
	}
	return nil
}

// misplaced lists the words that stand with an algorithm that has no use for them. Its
// faults name the word, the algorithms that it is for, and the one that it stands with.
func (s *Spec) misplaced() []error {
	a := s.Algorithm
	var errs []error
	only := func(set, fits bool, word, place string) {
		if set && !fits {
			errs = append(errs, fmt.Errorf("%s is for %s, not for %s", word, place, a))
		}
	}
	const buckets = "gcra, token-bucket and leaky-bucket"
	only(s.Burst != 0, a.bucket(), "burst", buckets)
	only(s.Initial != nil, a.bucket(), "initial", buckets)
	only(s.Debt != 0, a.bucket(), "debt", buckets)
	only(s.Queue != nil, a == LeakyQueue, "queue", "leaky-queue")
	only(s.Mode == Strict, a.bucket() || a == SlidingWindow, "strict", "gcra and sliding-window")
	only(s.Mode == Relaxed || s.Mode == Conservative, a == SlidingWindow, s.Mode.String(), "sliding-window")
	only(s.CountDenied, a == SlidingLog || a == SlidingWindow || a == FixedWindow, "count-denied", "windows and sliding-log")
	only(s.Anchored, a == FixedWindow, "anchored", "fixed-window")
	only(s.Calendar != NoCalendar, a == FixedWindow, "a civil "+s.Calendar.String(), "fixed-window")
	only(s.SubWindows != 0, a == SlidingWindow, "a number of sub-windows", "sliding-window")
	only(s.WarmUp != 0, a == WarmUp, "a warm-up time", "warm-up")
	only(s.Cold != 0, a == WarmUp, "cold", "warm-up")
	only(s.TTL != 0, a == Concurrent, "ttl", "concurrent")

	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	civil := a == FixedWindow && s.Calendar != NoCalendar
	fault(s.Anchored && s.Calendar > Week, "anchored needs a period of fixed length; write 720h or 8760h instead of %s", s.Calendar)
	fault(s.Zone != nil && (!civil || s.Anchored), "zone is for the civil day, week, month and year of fixed-window; other periods are the same in all zones")
	fault(s.Zone != nil && !listed(s.Zone), "zone %s is not the one of that name in the time zone database", s.Zone)
	fault(s.SubWindows < 0 || s.SubWindows > MaxSubWindows, "%d sub-windows; there may be 1…%d", s.SubWindows, MaxSubWindows)
	if n := s.SubWindows; n > 0 && n <= MaxSubWindows && s.Period > 0 {
		if period := int64(s.Period / time.Microsecond); period%n != 0 {
			fault(true, "%d sub-windows do not divide the period into whole microseconds; write %s", n, dividing(period, n))
		}
	}
	if a == WarmUp {
		fault(s.WarmUp < time.Microsecond || s.WarmUp > MaxWarmUp || s.WarmUp%time.Microsecond != 0,
			"warm-up takes %v; it must be 1us…24h in whole microseconds", s.WarmUp)
		fault(s.Cold != 0 && (s.Cold < 2 || s.Cold > MaxCold), "cold %d must be 2…%d: how many times slower a cold start is", s.Cold, MaxCold)
	}
	fault(s.TTL < 0 || s.TTL > MaxPeriod || s.TTL%time.Microsecond != 0, "ttl %v must be 1us…407day in whole microseconds", s.TTL)
	return errs
}

// dividing is which numbers of sub-windows near n, which does not, divide a period.
func dividing(period, n int64) string {
	less, more := n-1, n+1
	for period%less != 0 {
		less-- // 1 divides all
	}
	for more <= MaxSubWindows && period%more != 0 {
		more++
	}
	if more > MaxSubWindows {
		return fmt.Sprint(less)
	}
	return fmt.Sprintf("%d or %d", less, more)
}

// listed is whether zone is the one of its name in the time zone database, so
// that its name says it all.
func listed(zone *time.Location) bool {
	if zone == time.UTC {
		return true
	}
	found, err := time.LoadLocation(zone.String())
	if err != nil || zone.String() == "Local" {
		return false
	}
	for month := range time.Month(12) { // a zone made by hand has one offset
		at := time.Date(2024, month+1, 1, 0, 0, 0, 0, time.UTC)
		_, a := at.In(zone).Zone()
		if _, b := at.In(found).Zone(); a != b {
			return false
		}
	}
	return true
}

// drains checks that a filled bucket or queue empties within MaxDrain. It is what makes the
// arithmetic safe everywhere else: any number of events that a state may hold then takes
// less than 2^51 microseconds, so spans fit 63 bits and instants 53.
func (s *Spec) drains() error {
	if s.Count == 0 {
		return nil
	}
	v, held, what := s.pace(), s.Burst+s.Debt, "(burst + debt)"
	switch {
	case s.Algorithm.bucket():
	case s.Algorithm == LeakyQueue:
		held, what = *s.Queue+1, "(queue + 1)"
	default:
		return nil
	}
	// held × num ≤ MaxDrain × den, both sides below 2^83.
	if wider(held, v.num, int64(MaxDrain/time.Microsecond), v.den) {
		return fmt.Errorf("%s × interval is over 71 years; take a smaller one or a faster pace", what)
	}
	return nil
}
