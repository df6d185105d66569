package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-limit/weir"
)

// Result is what came of a simulation. The same workload, contenders and options
// give the same result, byte for byte, on every machine.
type Result struct {
	Workload string        // as text, with every word
	Seed     uint64        // what all chance came from
	Start    weir.Instant  // when the first step begins
	Duration time.Duration // in which requests came
	Step     time.Duration // of each Series
	Clients  int           // how many there are, whether they asked or not
	Shared   bool          // all clients shared one count
	Trials   []*Trial      // one for each contender, in their order
}

// Trial is what one contender made of the workload.
//
// It is the figures of the whole run, and how they came about, step by step.
type Trial struct {
	Name, Naive, Says string      // the contender's
	Limit             *weir.Limit // the contender's
	Figures           Figures
	Series            Series
}

// Figures sum a run up. "The last period" of an instant t is (t − period, t], with
// the period of the contender's limit (30 and 365 days for civil months and years),
// and speaks of one key: a client, or all of them when they share a count.
//
// Requests and events are different: a request has a cost of 0, 1 or more events. Limits count
// events. Each field says which it counts.
type Figures struct {
	// Asked, Passed and Denied are requests. Requests that no waiting could ever let pass are
	// denied, too. Requests that a client made again count again.
	Asked, Passed, Denied int64

	// WronglyPassed are the requests that passed although they made the last period
	// hold more than the count. WronglyDenied are those that were denied although they
	// would have fitted into it.
	//
	// Both are judged by an exact log of what this contender itself let go, and not by
	// what a perfect limiter would have done from the beginning: after one difference
	// that one would have another past, and each later decision would be called wrong
	// for it. Only what was wrongly denied is put into the log as if it had passed,
	// for a period, so that a place that was left empty is missed once and not by each
	// who asks in the meantime. A request that waits in a queue counts against others
	// from when it came, and is judged when it goes.
	WronglyPassed, WronglyDenied int64

	// Held are the requests that passed and had to wait in a queue. A log does neither: it
	// lets a request go when it comes, or denies it.
	Held int64

	// Believes tells that the contender keeps a count of the last period that it can
	// be asked for: the windows and the log. A bucket does not: it knows its level.
	// Then MeanError and WorstError are how far that count is off, in events: at
	// each request, before it is counted. For this the contender counts all that is
	// asked and denies nobody, so that all contenders count the same. An estimate
	// that is no whole number is rounded up.
	// MeanTrue is what the count really was, on average.
	Believes   bool
	MeanError  Millionths
	WorstError int64
	MeanTrue   Millionths

	// FalsePositives are requests that fitted into the last period, of all that was
	// asked for in it, although that count says that they don't; FalseNegatives are
	// those that did not fit although it says so. They tell how well the count would
	// do as an alarm, for which what was denied counts too.
	FalsePositives, FalseNegatives int64

	// WorstPeriod is the most events of one key that went in any period, wherever it
	// begins. Excess is by how much that is more than the count, or 0. Bound is the
	// most that it can be by proof, for requests that cost no more than the largest
	// one did; 0 for naive forms, which promise nothing.
	WorstPeriod, Excess, Bound int64

	// LongestWait is the longest time from a request of a client that did not go at
	// once, because it was denied or had to wait in a queue, until the next one of
	// that client went; or until its last request, when none did.
	LongestWait time.Duration

	// PeakLoad is the most events of all clients together that went in a LoadStep,
	// a sixtieth of the period, and MeanLoad how many did on average, until nobody
	// asks any more and the last has gone.
	LoadStep time.Duration
	// The peak is what a server behind the limit has to bear at a time, which WorstPeriod does not
	// tell: a period's events may come at once.
	PeakLoad int64
	MeanLoad Millionths

	// Starved is by how much those fared worse who asked in the second half of a
	// period by the clock: 1 less the share of them that passed over the share that
	// passed of those in the first half, or 0 when they fared no worse. 1: late ones
	// got nothing.
	Starved Millionths

	// Jain is Jain's index of fairness between the clients that asked, over the
	// events that went: (Σx)² / (n Σx²). 1 when all got the same, 1/n when one got all.
	Jain Millionths

	// StateBytes is the size of the largest state of a key, without what the store
	// needs around it: 8 bytes for the key, 8 more where states grow, and a quarter
	// of empty places. 0 when it is not known.
	//
	// It is counted from the words of a state, and not measured from memory.
	StateBytes int64
}

// Series is how a run went, one value for each step of Result.Step from
// Result.Start on. All slices have the same length, but Believed, which is nil
// when the contender believes nothing.
//
// Asked, Passed and Denied are requests that came in the step; Gone is the events
// that went in it. The others speak of the first client (or of all, when they share
// a count), at the very beginning of the step: True is how many events were asked
// for in the last period, Believed how many the contender believes that to be, and
// Within how many of them it let go.
//
// A step begins at Start + i × Step, and has what came in [begin, begin + Step). Requests come in
// the duration only, but what waits in a queue may go after it: Gone leaves that out, and Figures
// count it.
type Series struct {
	Asked    []int64 `json:"asked"`
	Passed   []int64 `json:"passed"`
	Denied   []int64 `json:"denied"`
	Gone     []int64 `json:"gone"`
	True     []int64 `json:"true"`
	Believed []int64 `json:"believed"` // null where nothing is believed
	Within   []int64 `json:"within"`
}

// Otherwise is how many requests the contender did not treat as an exact log would have when
// they came: it passed or denied them wrongly, or had them wait.
func (f *Figures) Otherwise() int64 { return f.WronglyPassed + f.WronglyDenied + f.Held }

// Millionths is a number in millionths.
//
// Means and shares are whole millionths, rounded down, so that results are the same to the byte
// everywhere.
type Millionths int64

// share is a/b in millionths, rounded down, for a and b that are not negative; 0
// when b is 0.
func share(a, b int64) Millionths {
	return Millionths(muldiv(uint64(a), 1_000_000, uint64(b)))
}

// String is the number with its six decimals, without zeros at the end.
func (m Millionths) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	text := fmt.Sprintf("%s%d.%06d", sign, m/1_000_000, m%1_000_000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Fixed is the number with so many decimals, rounded.
func (m Millionths) Fixed(decimals int) string {
	unit := Millionths(1)
	for range 6 - decimals {
		unit *= 10
	}
	m = (m + unit/2) / unit * unit
	return fmt.Sprintf("%d.%0*d", m/1_000_000, decimals, m%1_000_000/unit)
}

// MarshalJSON is the number as String has it.
func (m Millionths) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }
