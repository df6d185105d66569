package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
)

// Report is what rules did to the requests of a log.
type Report struct {
	Rules  []RuleReport // in the order of their files
	WhatIf *WhatIf      // nil when rules were not compared
	Log    LogReport
}

// RuleReport is what one rule said by itself: a line that it allows is kept out when
// another of its limits denies it, and is charged then by none. Its JSON is the contract's, to the member;
// the rest is for the text.
type RuleReport struct {
	Rule       string `json:"rule"`
	Limit      string `json:"limit"`
	Asked      int64  `json:"asked"` // the sum of the next three
	Allowed    int64  `json:"allowed"`
	Denied     int64  `json:"denied"`
	Impossible int64  `json:"impossible"`
	// Keys counts the keys that the rule was asked for, exactly unless KeysMore
	// tells that there were more than could be kept.
	Keys     int64 `json:"keys"`
	KeysMore bool  `json:"-"`
	// KeysDenied is how many of them were denied at least once.
	KeysDenied int64 `json:"-"`
	// FirstDenied is when the rule denied first, nil for never.
	FirstDenied *Time `json:"first_denied"`
	// TopDenied are the keys with the most denials, at most TopKeys of them;
	// of equals the first in the order of bytes.
	TopDenied []KeyDenied `json:"top_denied"`
	// Shadow tells that the rule is not enforced: its denials kept nobody out.
	Shadow bool `json:"-"`
}

// KeyDenied is how often a key was denied.
type KeyDenied struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// LogReport is what was read, and how much of it passed. Its JSON is the contract's, and passed.
type LogReport struct {
	Lines   int64 `json:"lines"`   // that count
	Skipped int64 `json:"skipped"` // that could not be read
	Late    int64 `json:"late"`    // that came too late for their place and took the newest time
	From    *Time `json:"from"`    // of the first request; nil without lines
	To      *Time `json:"to"`      // of the last
	// Passed are the lines that the rules let pass, each with all of its limits
	// together; nil where no rules were asked.
	Passed *int64 `json:"passed,omitempty"`
	// Early counts lines that were decided while older ones could still have
	// come, because too many lines were waiting.
	Early int64 `json:"-"`
	// TooLong counts lines with a value that no rule was asked about, because a
	// request with it would be refused: it is longer than rules.MaxWord.
	TooLong int64 `json:"-"`
	// Costless counts lines without a usable cost, that no rule was asked about.
	Costless int64 `json:"-"`
	// Damaged are the first of the skipped lines.
	Damaged []accesslog.Damaged `json:"-"`
	// Usage is what was read of a usage log; nil: it was an access log. Lines are requests then.
	Usage *UsageReport `json:"-"`
	// Forgotten counts states that were given up for want of room: some denied
	// requests may then have been allowed, or the other way round.
	Forgotten int64 `json:"-"`
}

// Time is an instant that is written as RFC 3339 in UTC, with as many decimals
// as it needs.
type Time weir.Instant

// String is the time as text.
func (t Time) String() string { return weir.Instant(t).Time().Format(time.RFC3339Nano) }

// MarshalText is the time as text.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// WriteJSON writes a line for each rule, what differs if rules were compared,
// and a line for the log.
func (r *Report) WriteJSON(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	var lines []any
	for i := range r.Rules {
		lines = append(lines, &r.Rules[i])
	}
	if r.WhatIf != nil {
		lines = append(lines, r.WhatIf.lines()...)
	}
	for _, line := range append(lines, &r.Log) {
		if err := e.Encode(line); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}
