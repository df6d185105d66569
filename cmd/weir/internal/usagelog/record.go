package usagelog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// recordRoom is how many bytes a record takes at most beside its words, about.
const recordRoom = 420

// Record is what one rule decided for one key in one interval. Its JSON is the format of the log.
type Record struct {
	// ID is NODE/INCARNATION/INTERVAL/ROW: no two records have the same. An incarnation is a
	// life of a daemon's process; it sorts by its start. INTERVAL counts from 1, without a gap,
	// and ROW from 0.
	ID string `json:"id"`
	// Rows is how many records the interval has.
	Rows int `json:"rows"`
	// From and To are when the interval began and ended. It lasts a second, or longer while
	// records wait.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`

	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	// Shadow tells that the rule is not enforced.
	Shadow bool `json:"shadow"`
	// Key is whose count it is, in words; empty: the rule has one count for all.
	Key string `json:"key"`
	// Name is the words that a digest stands for in Key, if they are known, and shortened.
	Name string `json:"name"`
	// Other tells that the record is of all the keys that the interval had no room to tell apart.
	Other bool `json:"other"`

	Allowed       int64 `json:"allowed"`
	Denied        int64 `json:"denied"`
	Impossible    int64 `json:"impossible"`
	Degraded      int64 `json:"degraded"`
	AllowedEvents int64 `json:"allowed_events"`
	DeniedEvents  int64 `json:"denied_events"`
	Charged       int64 `json:"charged"`
	Settled       int64 `json:"settled"`
	GivenBack     int64 `json:"given_back"`
	ChargedMore   int64 `json:"charged_more"`
}

// Counts is what the record has counted.
func (r *Record) Counts() Counts {
	return Counts{
		r.Allowed, r.Denied, r.Impossible, r.Degraded, r.AllowedEvents, r.DeniedEvents, r.Charged,
		r.Settled, r.GivenBack, r.ChargedMore,
	}
}

// timeForm is how records tell times: in UTC, to the millisecond.
const timeForm = "2006-01-02T15:04:05.000Z"

// head is what the records of an interval have in common, as JSON.
type head struct {
	id   []byte // the beginning, up to the row in ID
	span []byte // what follows the row, up to the domain
}

// headOf is that of an interval, whose ids begin with id.
func headOf(id string, rows int, from, to time.Time) (h head) {
	quoted := appendText([]byte(`{"id":`), id)
	h.id = quoted[:len(quoted)-1] // the row goes into the quotes, too
	h.span = strconv.AppendInt([]byte(`","rows":`), int64(rows), 10)
	h.span = from.UTC().AppendFormat(append(h.span, `,"from":"`...), timeForm)
	h.span = to.UTC().AppendFormat(append(h.span, `","to":"`...), timeForm)
	return h
}

// appendRecord appends the line of a record. Members that are 0 or false are left out, but for
// those that every reader wants.
func appendRecord(b []byte, h *head, number int, e *ended) []byte {
	b = strconv.AppendInt(append(b, h.id...), int64(number), 10)
	b = append(b, h.span...)
	b = appendText(append(b, `","domain":`...), e.rule.id.Domain)
	b = appendText(append(b, `,"rule":`...), e.rule.id.Rule)
	if e.rule.id.Shadow {
		b = append(b, `,"shadow":true`...)
	}
	if e.other {
		b = append(b, `,"other":true`...)
	} else {
		b = appendText(append(b, `,"key":`...), e.text)
	}
	if e.name != "" {
		b = appendText(append(b, `,"name":`...), e.name)
	}
	for _, n := range [...]struct {
		name   string
		n      int64
		always bool
	}{
		{`,"allowed":`, e.Allowed, true},
		{`,"denied":`, e.Denied, true},
		{`,"impossible":`, e.Impossible, false},
		{`,"degraded":`, e.Degraded, false},
		{`,"allowed_events":`, e.AllowedEvents, true},
		{`,"denied_events":`, e.DeniedEvents, true},
		{`,"charged":`, e.Charged, true},
		{`,"settled":`, e.Settled, false},
		{`,"given_back":`, e.GivenBack, false},
		{`,"charged_more":`, e.ChargedMore, false},
	} {
		if n.always || n.n != 0 {
			b = strconv.AppendInt(append(b, n.name...), n.n, 10)
		}
	}
	return append(b, "}\n"...)
}

// appendText appends a text as JSON; what is no UTF-8 in it is replaced.
func appendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // the error is about what was replaced
	return b
}

// ErrForeign is returned by ParseRecord for what is no record.
var ErrForeign = errors.New("this is no record of a usage log")

// ParseRecord reads a line of the log. Members that it does not know are of a later version, and
// left alone.
func ParseRecord(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(bytes.TrimSpace(line), &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if strings.Count(r.ID, "/") != 3 || r.Rows < 1 || r.From.IsZero() || r.To.Before(r.From) || !r.counted() {
		return r, ErrForeign
	}
	return r, nil
}

// mostCounted is more than an interval counts, and sums of some counts of so many have no overflow.
const mostCounted = 1 << 60

// counted is whether the counts are such as an interval can have.
func (r *Record) counted() bool {
	for _, n := range [...]int64{
		r.Allowed, r.Denied, r.Impossible, r.Degraded, r.AllowedEvents, r.DeniedEvents, r.Charged, r.Settled, r.GivenBack, r.ChargedMore,
	} {
		if n < 0 || n > mostCounted {
			return false
		}
	}
	return true
}

// digestText is what a record says of a key that is a digest of 32 bytes.
func digestText(digest []byte) string { return digestWord + hex.EncodeToString(digest) }

// digestWord begins a key that is a digest, here and in rules.Rule.KeyText.
const digestWord = "sha256:"

// hashed is whether a key is a digest of its words.
func hashed(text string) bool {
	return strings.HasPrefix(text, digestWord) && len(text) == len(digestWord)+64
}
