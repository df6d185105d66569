package weir

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/internal/editdistance"
)

// maxText bounds the length of limit text; the longest limit is far shorter.
const maxText = 1024

// LimitError says why a limit was refused, and what to write instead.
type LimitError struct {
	Text string // the limit as it was written
	Err  error  // the reasons, joined
}

func (e *LimitError) Error() string {
	text := e.Text
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return fmt.Sprintf("limit %q: %s", text, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
}

// Unwrap is the reasons.
func (e *LimitError) Unwrap() error { return e.Err }

// ParseLimit reads a limit such as "100/min", "5/s burst 10",
// "1000/day fixed-window zone Europe/Berlin" or "20 concurrent ttl 5min".
// docs/algorithms.md lists the words. The error is a *LimitError.
//
// The order of the words after COUNT/PERIOD does not matter, nor how many spaces stand
// between them. A word that is not for its algorithm is an error: a limit that is
// accepted does all that it says. The text is a contract: words are added, and none ever
// changes its meaning.
func ParseLimit(text string) (*Limit, error) {
	spec, err := parseSpec(text)
	if err == nil {
		var l *Limit
		if l, err = spec.Limit(); err == nil {
			return l, nil
		}
	}
	return nil, &LimitError{text, err}
}

// MustParseLimit is ParseLimit for limits written in the program's source: it
// panics where ParseLimit gives an error.
func MustParseLimit(text string) *Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic("weir: " + err.Error())
	}
	return l
}

// MarshalText is the limit as text.
func (l *Limit) MarshalText() ([]byte, error) { return []byte(l.text), nil }

// units are the units of a period, longest first, with the other spellings
// that are read. Month and year have no length here: they last as long as the calendar
// says, and only fixed windows can use them.
var units = []struct {
	name   string
	also   []string
	length time.Duration
}{
	{"year", []string{"years"}, 0},
	{"month", []string{"months"}, 0},
	{"week", []string{"weeks"}, 7 * 24 * time.Hour},
	{"day", []string{"days"}, 24 * time.Hour},
	{"h", []string{"hour", "hours"}, time.Hour},
	{"min", []string{"minute", "minutes", "mins"}, time.Minute},
	{"s", []string{"sec", "second", "secs", "seconds"}, time.Second},
	{"ms", nil, time.Millisecond},
	{"us", nil, time.Microsecond},
}

// parser reads the words of a limit from left to right.
//
// It finds what can't be read, and words that the Spec can't show (excluded). Spec.Limit
// refuses what is read and makes no sense: so a limit that a program describes and one that
// a file writes meet the same checks.
type parser struct {
	words []string // not read yet
	spec  Spec     // of what was read; no default is filled in
	seen  []string // words had so far, so that none stands there twice
	algo  string   // the word that named the algorithm; empty: none did
	// unit and times are the period until all words are read: a day is 24 hours for most
	// algorithms and a civil day for a fixed window, whose word comes later.
	unit  string
	times int64
}

func parseSpec(text string) (Spec, error) {
	if len(text) > maxText {
		return Spec{}, fmt.Errorf("%d bytes are too long; a limit has at most %d", len(text), maxText)
	}
	p := &parser{words: strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })}
	if err := p.quota(); err != nil {
		return Spec{}, err
	}
	for len(p.words) > 0 {
		if err := p.word(); err != nil {
			return Spec{}, err
		}
	}
	if err := p.period(); err != nil {
		return Spec{}, err
	}
	return p.spec, p.excluded()
}

func (p *parser) next() (string, bool) {
	if len(p.words) == 0 {
		return "", false
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w, true
}

// quota reads COUNT/[COUNT]UNIT or COUNT concurrent.
func (p *parser) quota() error {
	first, ok := p.next()
	if !ok {
		return errors.New("empty; write a limit such as 100/min or 20 concurrent")
	}
	amount, per, slash := strings.Cut(first, "/")
	n, err := number(amount)
	if err != nil {
		return fmt.Errorf("%w; a limit begins with its count, as in 100/min or 20 concurrent", err)
	}
	p.spec.Count = n
	if !slash {
		if w, _ := p.next(); w != "concurrent" {
			return fmt.Errorf("%q has no period; write %s/min, or %s concurrent for permits", first, amount, amount)
		}
		p.spec.Algorithm, p.algo = Concurrent, "concurrent"
		return nil
	}
	p.times, p.unit, err = splitUnit(per)
	return err
}

// splitUnit reads a period such as min or 15min; without digits times is 1.
func splitUnit(text string) (times int64, unit string, err error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	times = 1
	if digits > 0 {
		if times, err = number(text[:digits]); err != nil {
			return 0, "", err
		}
	}
	for _, u := range units {
		if text[digits:] == u.name || slices.Contains(u.also, text[digits:]) {
			return times, u.name, nil
		}
	}
	return 0, "", fmt.Errorf("unknown unit %q; write us, ms, s, min, h, day, week, month or year", text[digits:])
}

func unitLength(name string) time.Duration {
	for _, u := range units {
		if u.name == name {
			return u.length
		}
	}
	return 0
}

// number reads a count: digits only, below 2^53, so that a double holds it exactly.
func number(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n >= 1<<53 {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return n, nil
}

// word reads one word and what belongs to it.
func (p *parser) word() error {
	w, _ := p.next()
	for a, name := range algorithmNames {
		if w == name && Algorithm(a) != Concurrent {
			return p.algorithm(Algorithm(a))
		}
	}
	if slices.Contains(p.seen, w) {
		return fmt.Errorf("%s stands there twice; write each word once", w)
	}
	p.seen = append(p.seen, w)
	switch w {
	case "strict", "relaxed", "conservative":
		mode := Mode(slices.Index(modeNames[:], w))
		if p.spec.Mode != DefaultMode {
			return fmt.Errorf("%s and %s exclude each other", p.spec.Mode, w)
		}
		p.spec.Mode = mode
	case "anchored":
		p.spec.Anchored = true
	case "count-denied":
		p.spec.CountDenied = true
	case "burst":
		return p.count(w, 1, &p.spec.Burst)
	case "initial":
		p.spec.Initial = new(int64(0))
		return p.count(w, 0, p.spec.Initial)
	case "debt":
		return p.count(w, 0, &p.spec.Debt)
	case "queue":
		p.spec.Queue = new(int64(0))
		return p.count(w, 0, p.spec.Queue)
	case "cold":
		return p.count(w, 1, &p.spec.Cold)
	case "zone":
		return p.zone()
	case "ttl":
		return p.dur(w, &p.spec.TTL)
	case "concurrent":
		return errors.New("concurrent permits have no period; write N concurrent")
	default:
		if near, ok := editdistance.Nearest(w, strings.Split(wordList, ", ")); ok {
			return fmt.Errorf("unknown word %q; did you mean %s?", w, near)
		}
		return fmt.Errorf("unknown word %q; the words are %s", w, wordList)
	}
	return nil
}

const wordList = "gcra, token-bucket, leaky-bucket, leaky-queue, fixed-window, sliding-log, sliding-window, warm-up, strict, relaxed, " +
	"conservative, anchored, count-denied, burst, initial, debt, queue, cold, zone, ttl"

func (p *parser) algorithm(a Algorithm) error {
	if p.algo != "" {
		return fmt.Errorf("%s and %s: a limit has at most one algorithm", p.algo, a)
	}
	p.algo, p.spec.Algorithm = a.String(), a
	if a == WarmUp {
		return p.dur("warm-up", &p.spec.WarmUp)
	}
	if a == SlidingWindow && len(p.words) > 0 {
		if n, err := number(p.words[0]); err == nil {
			if n == 0 {
				return fmt.Errorf("0 sub-windows; there may be 1…%d", MaxSubWindows)
			}
			p.spec.SubWindows = n
			p.words = p.words[1:]
		}
	}
	return nil
}

func (p *parser) count(word string, least int64, into *int64) error {
	text, _ := p.next()
	n, err := number(text)
	if err != nil {
		return fmt.Errorf("%s: %w; write %s and a count", word, err, word)
	}
	if n < least {
		return fmt.Errorf("%s %d: it is at least %d", word, n, least)
	}
	*into = n
	return nil
}

func (p *parser) dur(word string, into *time.Duration) error {
	text, _ := p.next()
	times, unit, err := splitUnit(text)
	length := unitLength(unit)
	if err != nil || text == "" || text[0] < '0' || text[0] > '9' || length == 0 || length > time.Hour {
		return fmt.Errorf("%s %q: write a time such as 500ms, 30s, 5min or 2h", word, text)
	}
	if times == 0 || times > int64(MaxPeriod/length) {
		return fmt.Errorf("%s %s: it must be 1us…407day", word, text)
	}
	*into = time.Duration(times) * length
	return nil
}

func (p *parser) zone() error {
	name, ok := p.next()
	if !ok || name == "Local" {
		return errors.New("zone: write a name of the IANA time zone database, as in zone Europe/Berlin")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return fmt.Errorf("zone %q is not in the time zone database; write a name such as Europe/Berlin", name)
	}
	p.spec.Zone = loc
	return nil
}

// period settles what the unit means, which depends on the algorithm.
func (p *parser) period() error {
	if p.spec.Algorithm == Concurrent {
		return nil
	}
	length := unitLength(p.unit)
	civil := slices.Index(calendarNames[:], p.unit)
	if p.spec.Algorithm == FixedWindow && civil > 0 {
		if p.times != 1 {
			return fmt.Errorf("%d%s: a fixed window has one civil %s; write the period in h for longer ones", p.times, p.unit, p.unit)
		}
		p.spec.Calendar = Calendar(civil)
		return nil
	}
	if length == 0 {
		return fmt.Errorf("a %s has no fixed length; write it in days, or take fixed-window", p.unit)
	}
	if p.times == 0 || p.times > int64(MaxPeriod/length) {
		return fmt.Errorf("the period %d%s must be 1us…407day", p.times, p.unit)
	}
	p.spec.Period = time.Duration(p.times) * length
	return nil
}

// excluded finds words that only their presence tells apart from the default.
func (p *parser) excluded() error {
	has := func(w string) bool { return slices.Contains(p.seen, w) }
	if has("strict") && (has("debt") || has("initial")) {
		return errors.New("strict excludes debt and initial; leave them out, or leave out strict")
	}
	switch a := p.spec.Algorithm; {
	case has("debt") && !a.bucket():
		return fmt.Errorf("debt is not for %s", a)
	case has("cold") && a != WarmUp:
		return fmt.Errorf("cold is not for %s", a)
	}
	return nil
}

// print writes a filled Spec in its shortest form.
func (s *Spec) print() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", s.Count)
	switch {
	case s.Algorithm == Concurrent:
		b.WriteString(" concurrent")
	case s.Calendar != NoCalendar:
		b.WriteString("/" + s.Calendar.String())
	default:
		longest := 7 * 24 * time.Hour
		if s.Algorithm == FixedWindow {
			longest = time.Hour
		}
		b.WriteString("/" + printPeriod(s.Period, longest))
	}
	word := func(on bool, words ...any) {
		if on {
			b.WriteString(" " + strings.TrimSpace(fmt.Sprintln(words...)))
		}
	}
	word(s.Algorithm != GCRA && s.Algorithm != Concurrent && s.Algorithm != WarmUp, s.Algorithm)
	word(s.SubWindows > 1, s.SubWindows)
	if s.Algorithm == WarmUp {
		word(true, "warm-up", printDur(s.WarmUp))
	}
	word(s.Mode > Strict || s.Mode == Strict && s.Algorithm.bucket(), s.Mode)
	word(s.Anchored, "anchored")
	word(s.CountDenied, "count-denied")
	word(s.Algorithm.bucket() && s.Burst != s.Count, "burst", s.Burst)
	if s.Initial != nil {
		word(*s.Initial != s.Burst, "initial", *s.Initial)
	}
	word(s.Debt != 0, "debt", s.Debt)
	if s.Queue != nil {
		word(*s.Queue != s.Count, "queue", *s.Queue)
	}
	word(s.Algorithm == WarmUp && s.Cold != 3, "cold", s.Cold)
	if s.Zone != nil {
		word(s.Zone.String() != "UTC", "zone", s.Zone)
	}
	if s.Algorithm == Concurrent {
		word(s.TTL != time.Minute, "ttl", printDur(s.TTL))
	}
	return b.String()
}

func printDur(d time.Duration) string {
	text := printPeriod(d, time.Hour)
	if text[0] < '0' || text[0] > '9' {
		text = "1" + text
	}
	return text
}

// printPeriod writes d in its largest exact unit, none longer than longest.
func printPeriod(d, longest time.Duration) string {
	for _, u := range units {
		if u.length > 0 && u.length <= longest && d%u.length == 0 {
			if d == u.length {
				return u.name
			}
			return strconv.FormatInt(int64(d/u.length), 10) + u.name
		}
	}
	return d.String()
}

// wider is whether a × b > c × d, by products of 128 bits, so that none overflows. a and c
// are not negative.
func wider(a int64, b uint64, c int64, d uint64) bool {
	ah, al := bits.Mul64(uint64(a), b)
	ch, cl := bits.Mul64(uint64(c), d)
	return ah > ch || ah == ch && al > cl
}
