package shadow

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Share is a part of traffic, in millionths.
type Share int64

// UsualShare is how many of the requests that a change meets it may deny beyond those that are denied now, unless somebody says
// otherwise: one of a hundred.
const UsualShare Share = 10_000

// Enough is how many requests must have met a candidate before a share says
// anything.
const Enough = 100

// String is s as a percentage.
func (s Share) String() string { return strconv.FormatFloat(float64(s)/10_000, 'f', -1, 64) + " %" }

// Verdict is whether a candidate may come into force.
type Verdict struct {
	// Share is how many of the requests that met it it denies that pass now, rounded up: since
	// it began to run or in the last minutes, whichever is more.
	Share    Share `json:"share_in_millionths"`
	Requests int64 `json:"requests"` // that it was compared by
	Refused  bool  `json:"refused"`
	// Why says it in a sentence, with what to do instead when it is refused.
	Why string `json:"why"`
}

// Looser is of a change that can deny nothing more than what is active.
func Looser() Verdict {
	return Verdict{Why: "each of its limits is at least as loose as the active one, so it is not tried"}
}

// Judge refuses a change that would deny more than most of the requests that meet it
// beyond what is denied today, and one that nobody knows this of: without a
// report, or with too few requests in it.
func Judge(r *Report, most Share) Verdict {
	if r == nil {
		return Verdict{Refused: true, Why: "it does not run in shadow, so it is not known what it would deny; run it in shadow first, or force it with a reason"}
	}
	if r.Looser {
		return Looser()
	}
	compared := r.Counts.Compared()
	if compared < Enough {
		return Verdict{Requests: compared, Refused: true, Why: fmt.Sprintf("%s met it %s since %s, and %d are needed to say what it would deny; "+
			"let it run in shadow while there is traffic, or force it with a reason", requests(compared), on(r.Nodes), r.Since.UTC().Format("2006-01-02 15:04 MST"), Enough)}
	}
	v := Verdict{Share: share(r.Counts.OnlyCandidate, compared), Requests: compared}
	when := "since " + r.Since.UTC().Format("2006-01-02 15:04 MST")
	if n := r.Recent.Compared(); n >= Enough {
		if recent := share(r.Recent.OnlyCandidate, n); recent > v.Share {
			v.Share, when = recent, "since "+r.RecentSince.UTC().Format("15:04 MST")
		}
	}
	v.Refused = v.Share > most
	v.Why = fmt.Sprintf("%v of the requests that met it %s %s would be denied that pass now, and %v may be; %d were compared", v.Share, on(r.Nodes), when, most, compared)
	if v.Refused {
		v.Why += "; loosen the limit, let the clients know first, or force it with a reason"
	}
	if ran := r.At.Sub(r.Since); ran < r.Period {
		v.Why += fmt.Sprintf(". It has run for less than %s, the longest period of its limits: it may deny more once it knows of a whole one", short(r.Period))
	}
	return v
}

// requests is how many, for people.
func requests(n int64) string {
	switch n {
	case 0:
		return "no request has"
	case 1:
		return "only 1 request has"
	}
	return fmt.Sprintf("only %d requests have", n)
}

// on is on how many nodes requests were counted.
func on(nodes int) string {
	switch nodes {
	case 0:
		return "on this node"
	case 1:
		return "on one node"
	}
	return fmt.Sprintf("on %d nodes", nodes)
}

// share is part of all, in millionths, rounded up. all is above 0.
func share(part, all int64) Share {
	hi, lo := bits.Mul64(uint64(part), 1_000_000)
	quotient, rest := bits.Div64(hi, lo, uint64(all))
	if rest > 0 {
		quotient++
	}
	return Share(quotient)
}

// short is a time without the parts that are none, as 1h.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
