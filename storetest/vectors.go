package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// Vectors replays every transcript of a folder on stores that open makes, and
// compares what they answer with what is written there. With update it writes
// the answers into the files instead.
//
// A transcript begins with its story, in lines of #. The other lines are
//
//	limit TEXT                    the limit, or one of several; further down, the limit that replaces it
//	at TIME take N [OPTION…]      asks, and answers after "->"
//	at TIME peek N [OPTION…]      decides without charging
//	at TIME settle NAME used N    settles a receipt; the answer tells what stays charged when that is not N
//	at TIME renew NAME            extends a permit
//	at TIME reset                 forgets what was used
//
// TIME is a duration since 1970 such as 90s, or m:ss, or RFC 3339. The options
// are "x K" (ask K times; the answer tells runs, as in "5 allow, 15 deny"),
// "at-least N", "within DUR" (be held so long at most), "after" (report work
// done), "key K" and "receipt NAME". N may be a number for each limit: "1,30".
func Vectors(t *testing.T, dir string, update bool, open func(t *testing.T) Clocked) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Replay(want, open(t))
			if unfit, ok := errors.AsType[*unfitError](err); ok {
				t.Skip(unfit)
			}
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			if bytes.Equal(got, want) {
				return
			}
			if update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			reportDifference(t, file, got, want)
		})
	}
}

func reportDifference(t *testing.T, file string, got, want []byte) {
	t.Helper()
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range w {
		if i < len(g) && g[i] != w[i] {
			t.Errorf("%s:%d:\n got %s\nwant %s", file, i+1, g[i], w[i])
		}
	}
}

// unfitError says that a transcript has a limit that the store refuses.
type unfitError struct{ text string }

func (e *unfitError) Error() string { return e.text }

// transcript is a vector file under replay.
type transcript struct {
	store    Clocked
	limits   []*weir.Limit
	replaced int // limits replaced since the last ask
	asked    bool
	receipts map[string][]*weir.Receipt
	nextID   uint64
}

// Replay runs a transcript on a store and returns it with the store's answers
// in place of those that are written there. Errors begin with the line's number.
func Replay(text []byte, store Clocked) ([]byte, error) {
	v := &transcript{store: store, receipts: map[string][]*weir.Receipt{}}
	var out bytes.Buffer
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		line, comment := cutComment(line)
		ask, _, _ := strings.Cut(line, "->")
		ask = strings.TrimRight(ask, " ")
		answer, err := v.line(strings.Fields(ask))
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		if answer != "" {
			ask = fmt.Sprintf("%-34s -> %s", ask, answer)
		}
		if comment != "" && ask != "" {
			ask += "   "
		}
		out.WriteString(ask + comment + "\n")
	}
	return out.Bytes(), nil
}

func cutComment(line string) (rest, comment string) {
	if i := strings.Index(line, "# "); i >= 0 {
		return line[:i], line[i:]
	}
	return line, ""
}

func (v *transcript) line(words []string) (string, error) {
	switch {
	case len(words) == 0:
		return "", nil
	case words[0] == "limit":
		return "", v.limit(strings.Join(words[1:], " "))
	case words[0] == "at" && len(words) >= 3:
		now, err := instant(words[1])
		if err != nil {
			return "", err
		}
		v.asked = true
		return v.act(now, words[2], words[3:])
	}
	return "", fmt.Errorf("unknown line %q", strings.Join(words, " "))
}

// limit adds a limit, or after the first ask replaces them in their order.
func (v *transcript) limit(text string) error {
	l, err := weir.ParseLimit(text)
	if err != nil {
		return err
	}
	if !fits(v.store, l) {
		return &unfitError{fmt.Sprintf("the store refuses %s: %s", l, v.store.Traits().Unfit(l))}
	}
	if !v.asked {
		v.limits = append(v.limits, l)
		return nil
	}
	v.limits[v.replaced%len(v.limits)] = l
	v.replaced++
	return nil
}

func (v *transcript) act(now weir.Instant, verb string, words []string) (string, error) {
	switch verb {
	case "take", "peek":
		return v.take(now, verb == "peek", words)
	case "settle", "renew":
		return v.settle(now, verb == "renew", words)
	case "reset":
		return "done", v.store.ResetAt(now, v.keys("k"))
	}
	return "", fmt.Errorf("unknown verb %q", verb)
}

func (v *transcript) keys(key string) []weir.StateKey {
	var keys []weir.StateKey
	for i := range v.limits {
		keys = append(keys, weir.StateKey{Rule: strconv.Itoa(i), Key: key})
	}
	return keys
}

// question is a take as it is written.
type question struct {
	weir.Ask

	key     string
	times   int
	receipt string
	costs   []int64 // of each limit, or one of all
	leasts  []int64 // the same of at-least
}

// ask is what the i-th limit is asked.
func (q *question) ask(i int) weir.Ask {
	a := q.Ask
	a.Cost, a.AtLeast = of(q.costs, i), of(q.leasts, i)
	return a
}

func of(numbers []int64, i int) int64 {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[min(i, len(numbers)-1)]
}

func parseQuestion(peek bool, words []string) (question, error) {
	q := question{key: "k", times: 1, Ask: weir.Ask{Peek: peek}}
	if len(words) == 0 {
		return q, errors.New("a take needs its cost")
	}
	var err error
	number := func(text string) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, e)
		return n
	}
	each := func(text string) (numbers []int64) {
		for one := range strings.SplitSeq(text, ",") {
			numbers = append(numbers, number(one))
		}
		return numbers
	}
	q.costs = each(words[0])
	for i := 1; i < len(words); i++ {
		option, value := words[i], ""
		if option == "after" {
			q.After = true
			continue
		}
		if i++; i < len(words) {
			value = words[i]
		}
		switch option {
		case "x":
			q.times = int(number(value))
		case "at-least":
			q.leasts = each(value)
		case "within":
			d, e := time.ParseDuration(value)
			q.MaxHold, err = d, errors.Join(err, e)
		case "key":
			q.key = value
		case "receipt":
			q.receipt = value
		default:
			return q, fmt.Errorf("unknown option %q", option)
		}
	}
	return q, err
}

func (v *transcript) take(now weir.Instant, peek bool, words []string) (string, error) {
	q, err := parseQuestion(peek, words)
	if err != nil {
		return "", err
	}
	asks := make([]weir.Ask, len(v.limits))
	for i, k := range v.keys(q.key) {
		asks[i] = q.ask(i)
		asks[i].State, asks[i].Limit = k, v.limits[i]
	}
	if q.receipt != "" {
		v.nextID++
		for i := range asks {
			asks[i].Receipt = v.nextID
		}
	}
	var runs []string
	outcome, length := "", 0
	out := make([]weir.Decision, len(asks))
	for range q.times {
		if err := v.store.TakeAt(now, asks, out); err != nil {
			return "", err
		}
		if word := verdict(asks, out); word != outcome {
			runs = addRun(runs, length, outcome)
			outcome, length = word, 0
		}
		length++
	}
	if q.receipt != "" {
		v.receipts[q.receipt] = nil
		for i := range out {
			if r := out[i].Receipt; r != nil {
				v.receipts[q.receipt] = append(v.receipts[q.receipt], r)
			}
		}
	}
	if q.times == 1 {
		return describe(out), nil
	}
	return strings.Join(addRun(runs, length, outcome), ", ") + "; " + describe(out), nil
}

func addRun(runs []string, length int, outcome string) []string {
	if length == 0 {
		return runs
	}
	return append(runs, fmt.Sprintf("%d %s", length, outcome))
}

func verdict(asks []weir.Ask, out []weir.Decision) string {
	return word(out[weir.Decisive(asks, out)].Outcome)
}

func word(o weir.Outcome) string {
	return map[weir.Outcome]string{weir.Allowed: "allow", weir.Denied: "deny", weir.Impossible: "impossible"}[o]
}

// describe is every fact of the decisions, one after the other.
func describe(out []weir.Decision) string {
	var all []string
	for i := range out {
		d := &out[i]
		var text strings.Builder
		text.WriteString(word(d.Outcome))
		if d.Charged {
			fmt.Fprintf(&text, " charged %d", d.Cost)
		}
		fmt.Fprintf(&text, " remaining %d", d.Remaining)
		for _, f := range []struct {
			name string
			d    time.Duration
		}{{"retry", d.RetryAfter}, {"reset", d.ResetAfter}, {"hold", d.Hold}} {
			if f.d != 0 {
				fmt.Fprintf(&text, " %s %v", f.name, f.d)
			}
		}
		all = append(all, text.String())
	}
	return strings.Join(all, " | ")
}

func (v *transcript) settle(now weir.Instant, renew bool, words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("name the receipt")
	}
	receipts := v.receipts[words[0]]
	if len(receipts) == 0 {
		return "", fmt.Errorf("there is no receipt %q", words[0])
	}
	used := int64(0)
	if !renew {
		if len(words) != 3 || words[1] != "used" {
			return "", errors.New("write settle NAME used N")
		}
		var err error
		if used, err = strconv.ParseInt(words[2], 10, 64); err != nil {
			return "", err
		}
	}
	var all []weir.Settlement
	for _, r := range receipts {
		all = append(all, weir.Settlement{Receipt: r, Used: used, Renew: renew})
	}
	switch err := v.store.SettleAt(now, all); {
	case err == nil:
		return "done" + chargedOf(all), nil
	case errors.Is(err, weir.ErrSettled), errors.Is(err, weir.ErrExpired), errors.Is(err, weir.ErrNoPermit):
		return err.Error(), nil
	default:
		return "", err
	}
}

// chargedOf tells what stays charged, where that is not what was used.
func chargedOf(all []weir.Settlement) string {
	var charged []string
	same := true
	for _, s := range all {
		same = same && (s.Renew || s.Charged == s.Used)
		charged = append(charged, strconv.FormatInt(s.Charged, 10))
	}
	if same {
		return ""
	}
	return " charged " + strings.Join(charged, " | ")
}

// instant reads 90s, 1:15.5 or 2026-03-29T01:00:00Z.
func instant(text string) (weir.Instant, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return weir.Instant(d.Microseconds()), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return weir.InstantOf(t), nil
	}
	m, s, ok := strings.Cut(text, ":")
	d, err := time.ParseDuration(m + "m" + s + "s")
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is no time; write 90s, 1:15 or 2026-03-29T01:00:00Z", text)
	}
	return weir.Instant(d.Microseconds()), nil
}
