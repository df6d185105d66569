package rulestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Head stands for a line of the audit and all before it. Its text is the line's number, a colon, and the line's hash.
type Head struct {
	Seq  int64
	Hash string // SHA-256, in hex
}

// Head is the head that the audit has with e as its last line.
func (e *Event) Head() Head { return Head{e.Seq, e.Hash} }

// String is the head's text.
func (h Head) String() string { return strconv.FormatInt(h.Seq, 10) + ":" + h.Hash }

// MarshalText is String; that of the zero Head is empty.
func (h Head) MarshalText() ([]byte, error) {
	if h == (Head{}) {
		return nil, nil
	}
	return []byte(h.String()), nil
}

// ParseHead reads the text of a head.
func ParseHead(text string) (Head, error) {
	number, sum, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	raw, odd := hex.DecodeString(sum)
	if err != nil || odd != nil || seq < 1 || len(raw) != sha256.Size {
		return Head{}, invalid("head", "%q is no head of an audit; write NUMBER:HASH, as weir audit verify prints it", clip(text))
	}
	return Head{seq, hex.EncodeToString(raw)}, nil
}

// sum is what Hash must be: the SHA-256 of the name of this form, the hash of the line before, and each column, in this order. Each
// is written as its number of bytes, a colon, its bytes and a comma, so that no two lines have one form. A form with other columns gets
// another name.
func (e *Event) sum() string {
	h := sha256.New()
	for _, column := range []string{
		"weir audit 1", e.Prior, strconv.FormatInt(e.Seq, 10), strconv.FormatInt(e.Revision, 10), strconv.FormatInt(e.At.UnixMicro(), 10),
		e.Actor, e.Token, strings.Join(e.Teams, " "), e.Address, e.Team, e.Action, e.Domain, e.Rule, strconv.FormatInt(e.Version, 10), e.Reason, e.Refused,
	} {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(column), column) // which never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// chainLines chains the lines that were there before there was a chain, and has the database refuse to change any from then on.
func chainLines(ctx context.Context, tx *sql.Tx, d dialect) error {
	var head Head
	for {
		list, err := linesBehind(ctx, tx, head.Seq)
		if err != nil {
			return err
		}
		for _, e := range list {
			e.Prior = head.Hash
			e.Hash = e.sum()
			if _, err := tx.ExecContext(ctx, `UPDATE audit SET prior = $1, hash = $2 WHERE seq = $3`, e.Prior, e.Hash, e.Seq); err != nil {
				return err
			}
			head = e.Head()
		}
		if len(list) == 0 {
			_, err := tx.ExecContext(ctx, d.guard)
			return err
		}
	}
}

func linesBehind(ctx context.Context, q queryer, seq int64) ([]Event, error) {
	return find(ctx, q, scanEvent, `SELECT `+eventColumns+` FROM audit WHERE seq > $1 ORDER BY seq LIMIT `+strconv.Itoa(MaxPage), seq)
}

// Verify checks that the audit is one chain, as it is at one moment, and that kept heads are in it.
func (s *Store) Verify(ctx context.Context, kept []Head) (v Verdict, err error) {
	err = s.look(ctx, func(tx *sql.Tx) error {
		c := Chain{Kept: kept}
		for behind := int64(math.MinInt64); ; {
			list, err := linesBehind(ctx, tx, behind)
			if err != nil {
				return err
			}
			for i := range list {
				c.Add(&list[i])
				behind = list[i].Seq
			}
			if len(list) > 0 {
				continue
			}
			var numbered int64
			if err := tx.QueryRowContext(ctx, `SELECT audited FROM counters`).Scan(&numbered); err != nil {
				return err
			}
			v = c.Verdict(numbered)
			return nil
		}
	})
	return v, err
}

// Verdict says whether lines of the audit are a chain.
type Verdict struct {
	Lines  int64   `json:"lines"`
	Head   Head    `json:"head"`        // of the last line; zero: there is none
	Faults []Fault `json:"faults"`      // maxFaults at most
	More   int64   `json:"more_faults"` // than maxFaults
	// Withheld is how many lines could not be compared with their hash, since they came without what the reader may not read.
	Withheld int64 `json:"withheld,omitempty"`
}

// Fault is where lines are no chain.
type Fault struct {
	Seq  int64  `json:"seq"`
	Text string `json:"text"`
}

// maxFaults is how many faults a Verdict lists.
const maxFaults = 100

// Chain checks lines of the audit, from wherever they come. The zero Chain expects the first line.
type Chain struct {
	Kept []Head // that must be in it. If the first line comes right behind one of them, the chain begins there.

	verdict Verdict
	met     map[Head]bool // of Kept
}

// Add checks the next line.
func (c *Chain) Add(e *Event) {
	last := c.verdict.Head
	if c.verdict.Lines == 0 {
		c.met = map[Head]bool{}
		for _, k := range c.Kept {
			if k.Seq == e.Seq-1 {
				last, c.met[k] = k, true
			}
		}
	}
	switch {
	case e.Seq <= last.Seq:
		c.fault(e.Seq, "line %d stands behind line %d: it is there twice, or in another place", e.Seq, last.Seq)
	case e.Seq > last.Seq+1:
		c.fault(last.Seq+1, "%s missing", lines(last.Seq+1, e.Seq-1))
	case e.Prior != last.Hash:
		c.fault(e.Seq, "line %d does not follow line %d: it has the hash of another line before it", e.Seq, last.Seq)
	}
	if e.Withheld {
		c.verdict.Withheld++
	} else if e.Hash != e.sum() {
		c.fault(e.Seq, "line %d was changed: its hash is not of what it says", e.Seq)
	}
	for _, k := range c.Kept {
		if k.Seq != e.Seq {
			continue
		}
		if c.met[k] = true; k.Hash != e.Hash {
			c.fault(e.Seq, "line %d has another hash than the head that was kept: it, or a line before it, was changed and hashed anew", e.Seq)
		}
	}
	c.verdict.Lines++
	c.verdict.Head = e.Head()
}

// Unnumbered is for Chain.Verdict where nobody knows how many lines the database has numbered.
const Unnumbered = -1

// Verdict is that of all lines. numbered is how many lines the database has given a number, or Unnumbered.
func (c *Chain) Verdict(numbered int64) Verdict {
	last := c.verdict.Head.Seq
	switch {
	case numbered > last:
		c.fault(last+1, "%s missing at the end: the database has numbered %d", lines(last+1, numbered), numbered)
	case numbered < last && numbered != Unnumbered:
		c.fault(numbered+1, "%s added by another hand: the database has numbered %d", lines(numbered+1, last), numbered)
	}
	for _, k := range c.Kept {
		if !c.met[k] && k.Seq > last {
			c.fault(k.Seq, "the audit ends with line %d, and the head of line %d was kept: its end was cut off", last, k.Seq)
		}
	}
	return c.verdict
}

func (c *Chain) fault(seq int64, format string, args ...any) {
	if len(c.verdict.Faults) >= maxFaults {
		c.verdict.More++
		return
	}
	c.verdict.Faults = append(c.verdict.Faults, Fault{seq, fmt.Sprintf(format, args...)})
}

// lines is the subject of a sentence about lines.
func lines(from, to int64) string {
	if from == to {
		return fmt.Sprintf("line %d is", from)
	}
	return fmt.Sprintf("lines %d…%d are", from, to)
}
