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

// UsualShare is how much more of the traffic a change may deny than the rules in
// force do, unless somebody says otherwise: one request of a hundred.
const UsualShare Share = 10_000

// Enough is how many requests must have been compared before a share says
// anything.
const Enough = 100

// String is s as a percentage.
func (s Share) String() string { return strconv.FormatFloat(float64(s)/10_000, 'f', -1, 64) + " %" }

// Verdict is whether a candidate may come into force.
type Verdict struct {
	// Share is how much of the traffic it denies that passes now, rounded up: since
	// it began to run or in the last minutes, whichever is more.
	Share   Share `json:"share_in_millionths"`
	Refused bool  `json:"refused"`
	// Why says it in a sentence, with what to do instead when it is refused.
	Why string `json:"why"`
}

// Judge refuses a change that would deny more than most of the current traffic
// beyond what is denied today, and one that nobody knows this of: without a
// report, or with too few requests in it. A reason, which is to be recorded,
// forces it through; the verdict then still says why it was refused.
func Judge(r *Report, most Share, reason string) Verdict {
	v := judge(r, most)
	if v.Refused && reason != "" {
		v.Refused = false
		v.Why = fmt.Sprintf("forced (%s), though %s", reason, v.Why)
	}
	return v
}

func judge(r *Report, most Share) Verdict {
	if r == nil {
		return Verdict{Refused: true, Why: "no candidate of this domain runs in shadow, so it is not known what it would deny; run it in shadow first, or force it with a reason"}
	}
	compared := r.Counts.Compared()
	if compared < Enough {
		return Verdict{Refused: true, Why: fmt.Sprintf("only %d requests were compared since %s, and %d are needed to say what it would deny; "+
			"let it run in shadow while there is traffic, or force it with a reason", compared, r.Since.UTC().Format("15:04 MST"), Enough)}
	}
	v := Verdict{Share: share(r.Counts.OnlyCandidate, compared)}
	when := "since " + r.Since.UTC().Format("2006-01-02 15:04 MST")
	if n := r.Recent.Compared(); n >= Enough {
		if recent := share(r.Recent.OnlyCandidate, n); recent > v.Share {
			v.Share, when = recent, "since "+r.RecentSince.UTC().Format("15:04 MST")
		}
	}
	v.Refused = v.Share > most
	v.Why = fmt.Sprintf("%v of the requests %s would be denied that pass now, and %v may be", v.Share, when, most)
	if v.Refused {
		v.Why += "; loosen the limit, let the clients know first, or force it with a reason"
	}
	if ran := r.At.Sub(r.Since); ran < r.Period {
		v.Why += fmt.Sprintf(". It has run for less than %s, the longest period of its limits: it may deny more once it knows of a whole one", short(r.Period))
	}
	return v
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
