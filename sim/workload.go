package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of a workload. A workload beyond them is refused with the reason.
const (
	// MaxClients is how many clients a workload may have.
	MaxClients = 1_000_000
	// MaxRate is the fastest pace, in requests a second.
	MaxRate = 1_000_000
	// MaxAtOnce is how many requests a burst may have.
	MaxAtOnce = 1_000_000
	// MaxTries is how often a client may ask for the same thing.
	MaxTries = 1000
	// MaxDuration is the longest time that is simulated.
	//
	// It is the longest period of a limit, weir.MaxPeriod. Sums of times within it stay far below
	// 2^63 microseconds.
	MaxDuration = 407 * 24 * time.Hour
)

// Start is when made-up traffic begins: a Monday, a new month and a new year in
// UTC, so that windows of every length begin with it.
const Start weir.Instant = 1_704_067_200_000_000 // 2024-01-01T00:00:00Z

// Request is one request of a workload.
type Request struct {
	At     weir.Instant
	Client int32 // who asks: 0…MaxClients − 1
	Cost   int64 // the events that it is worth: 0…weir.MaxCount
}

// Workload says which requests come, and when. It is made by ParseWorkload or
// Recorded and never changes; for one seed it always gives the same requests.
//
// It holds no place in its traffic. Each call of requests begins it anew, so trials can share it.
type Workload struct {
	kind     *kind // nil for what was recorded
	settings settings
	name     string // of what was recorded
	recorded []Request
}

// source gives requests in the order of their times, until ok is false. One of
// nobody is none: it tells that nothing comes up to its time, so that the caller of a long silence
// can stop.
type source func() (r Request, ok bool)

// nobody is the client of no request.
const nobody = -1

// ParseWorkload reads a workload such as "poisson rate=100/min clients=20": its
// kind, then the words that differ from their defaults. Defaults suit the limit l:
// as much comes as it lets pass. Kinds lists all kinds and their words.
//
// l gives the defaults, and nothing else: the workload may be run against any limit.
func ParseWorkload(text string, l *weir.Limit) (*Workload, error) {
	if err := unfit(l); err != nil {
		return nil, err
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, inputf("the workload is empty; write a kind, such as poisson, and its words")
	}
	w := &Workload{kind: kindOf(words[0])}
	if w.kind == nil {
		return nil, inputf("workload %q: there is no such kind; take one of %s", words[0], strings.Join(kindNames(), ", "))
	}
	w.settings = defaults(l)
	if w.kind.suit != nil {
		w.kind.suit(&w.settings)
	}
	var seen []string
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case !slices.Contains(w.kind.words, name):
			return nil, inputf("workload %s: unknown word %q; it has %s", w.kind.name, word, strings.Join(w.kind.words, ", "))
		case slices.Contains(seen, name):
			return nil, inputf("workload %s: %s stands there twice; write each word once", w.kind.name, name)
		}
		seen = append(seen, name)
		if err := w.settings.set(name, value); err != nil {
			return nil, inputf("workload %s: %s: %w", w.kind.name, word, err)
		}
	}
	// herd alone makes size requests for each client; for all other kinds the bound of size is
	// enough.
	if s := &w.settings; w.kind.name == "herd" && s.size*int64(s.clients) > MaxAtOnce {
		return nil, inputf("workload herd: %d clients of %d requests are more than %d at once; take fewer", s.clients, s.size, MaxAtOnce)
	}
	return w, nil
}

// Recorded is a workload of requests that were made before: those of a log, or
// what a search has found. They must be in the order of their times. The workload
// keeps the slice.
func Recorded(name string, requests []Request) (*Workload, error) {
	if len(requests) == 0 {
		return nil, inputf("%s: no requests", name)
	}
	var last weir.Instant
	for i, r := range requests {
		switch {
		case r.At < last:
			return nil, inputf("%s: request %d is earlier than the one before; sort them", name, i+1)
		case r.Client < 0 || r.Client >= MaxClients:
			return nil, inputf("%s: request %d is of client %d; there may be 0…%d", name, i+1, r.Client, MaxClients-1)
		case r.Cost < 0 || r.Cost > weir.MaxCount:
			return nil, inputf("%s: request %d costs %d; it may cost 0…%d", name, i+1, r.Cost, weir.MaxCount)
		}
		last = r.At
	}
	// A request of a log was made when it was made, denied or not: the log has its tries, and none
	// are added.
	w := &Workload{name: name, recorded: requests, settings: settings{tries: 1}}
	for _, r := range requests {
		// Clients are numbered from 0, so the highest number tells how many states to keep.
		w.settings.clients = max(w.settings.clients, r.Client+1)
	}
	if w.Duration() > MaxDuration {
		return nil, inputf("%s: from the first request to the last are %v; at most %v can be simulated", name, w.Duration(), MaxDuration)
	}
	return w, nil
}

// String is the workload as text, with every word. ParseWorkload gives the same
// workload back, but for a recorded one.
func (w *Workload) String() string {
	if w.kind == nil {
		return w.name
	}
	var text strings.Builder
	text.WriteString(w.kind.name)
	for _, name := range w.kind.words {
		text.WriteString(" " + name + "=" + w.settings.text(name))
	}
	return text.String()
}

// Clients is how many clients there are.
func (w *Workload) Clients() int { return int(w.settings.clients) }

// Duration is how long the workload takes when nobody says: ten periods of the
// limit that it was made for, a whole day of a daily one, and from the first to
// the last request of what was recorded.
func (w *Workload) Duration() time.Duration {
	if w.kind == nil {
		first, last := w.recorded[0].At, w.recorded[len(w.recorded)-1].At
		return (last - first + 1).Duration()
	}
	return w.settings.duration
}

// start is when the workload begins.
func (w *Workload) start() weir.Instant {
	if w.kind == nil {
		return w.recorded[0].At
	}
	return Start
}

// requests begins the workload.
//
// seed means nothing to recorded requests.
func (w *Workload) requests(seed uint64, duration time.Duration) source {
	if w.kind == nil {
		return replayed(w.recorded, w.start()+weir.Instant(duration.Microseconds()))
	}
	s := w.settings
	s.duration = duration
	return until(w.kind.begin(&s, seed), Start+weir.Instant(duration.Microseconds()))
}

// until ends a source at an instant.
//
// Its user asks no more once it has ended.
func until(from source, end weir.Instant) source {
	return func() (Request, bool) {
		r, ok := from()
		return r, ok && r.At < end
	}
}

// replayed gives what was recorded.
func replayed(requests []Request, end weir.Instant) source {
	next := 0
	return until(func() (r Request, ok bool) {
		if next == len(requests) {
			return Request{}, false
		}
		next++
		return requests[next-1], true
	}, end)
}
