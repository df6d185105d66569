package jointstest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
)

// story is a run as data: a house, its rules in versions, and what happens. Its text is
// what a failing run prints, and what testdata keeps:
//
//	house parts keys=64             what is asked: see openHouse
//	rules v1                        a rule a line: key, mode, limits
//	  user: 10/min; d=100/day
//	  team quota: 5/h sliding-log
//	  path lease=100ms: 10/s
//	  free unlimited
//	check http user=ann*3 team=x receipt r1
//	settle r1 used 0                or one number for each descriptor: used 1,2
//	reload v2
//	reset user=ann
//	except user=ann!100/h 0         a limit of its own, in place of the first of its rule; except user=ann 0 ends it
//	lapse user=ann 0                that limit ends by itself, where there is a rule database
//	clock -2s                       where the house has a clock of its own
//	restart                         in order; with its snapshot, where there is one
//	flood http user 0-199 cost 5    keys f0 … f199, each once
//	store freeze                    and thaw, kill, back
//	join                            a node; leave 2, kill 2
//	wait 100ms
type story struct {
	house string
	rules []version
	steps []step
}

type version struct {
	name  string
	rules []oracle.Rule
}

type step struct {
	op       string
	listener string
	asks     []oracle.Descriptor
	peek     bool
	receipt  string
	used     []int64
	version  string
	by       time.Duration
	from, to int
	node     int // of an exception: which limit of the rule it is in place of
	what     string
}

func (s *story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "house %s\n", s.house)
	for _, v := range s.rules {
		fmt.Fprintf(&b, "rules %s\n", v.name)
		for _, r := range v.rules {
			fmt.Fprintf(&b, "  %s\n", ruleText(&r))
		}
	}
	for i := range s.steps {
		fmt.Fprintln(&b, s.steps[i].String())
	}
	return b.String()
}

func ruleText(r *oracle.Rule) string {
	text := strings.TrimSpace(r.Key + " " + r.Mode)
	if r.Lease != "" {
		text += " lease=" + r.Lease
	}
	if r.Unlimited {
		return text + " unlimited"
	}
	var limits []string
	for _, l := range r.Limits {
		limits = append(limits, l.String())
	}
	return text + ": " + strings.Join(limits, "; ")
}

func (s *step) String() string {
	switch s.op {
	case "check":
		var text strings.Builder
		text.WriteString("check " + s.listener)
		for _, d := range s.asks {
			text.WriteString(" " + askText(d))
		}
		if s.receipt != "" {
			text.WriteString(" receipt " + s.receipt)
		}
		if s.peek {
			text.WriteString(" peek")
		}
		if s.node > 0 {
			fmt.Fprintf(&text, " at %d", s.node)
		}
		return text.String()
	case "settle":
		var used []string
		for _, n := range s.used {
			used = append(used, fmt.Sprint(n))
		}
		return fmt.Sprintf("settle %s used %s", s.receipt, strings.Join(used, ","))
	case "reload":
		return "reload " + s.version
	case "reset":
		return "reset " + s.asks[0].Key + "=" + s.asks[0].Value
	case "except", "lapse":
		return fmt.Sprintf("%s %s %d", s.op, askText(s.asks[0]), s.node)
	case "clock", "wait":
		return fmt.Sprintf("%s %v", s.op, s.by)
	case "flood":
		return fmt.Sprintf("flood %s %s %d-%d cost %d", s.listener, s.asks[0].Key, s.from, s.to, s.asks[0].Cost)
	case "store":
		return "store " + s.what
	case "leave", "kill":
		return fmt.Sprintf("%s %d", s.op, s.node)
	}
	return s.op
}

// askText is user=ann*3, or user=ann*3!5/h with a limit that the request brings along.
func askText(d oracle.Descriptor) string {
	text := d.Key + "=" + d.Value
	if d.Cost != 1 {
		text += fmt.Sprintf("*%d", d.Cost)
	}
	if d.Override != "" {
		text += "!" + strings.ReplaceAll(d.Override, " ", "_")
	}
	return text
}

func parseStory(text string) (*story, error) {
	s := &story{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if err := s.read(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return s, nil
}

func (s *story) read(line string) error {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case strings.HasPrefix(line, "  "):
		r, err := parseRule(strings.TrimSpace(line))
		if err != nil || len(s.rules) == 0 {
			return fmt.Errorf("rule %q: %w", line, err)
		}
		v := &s.rules[len(s.rules)-1]
		v.rules = append(v.rules, r)
		return nil
	case words[0] == "house":
		s.house = strings.Join(words[1:], " ")
		return nil
	case words[0] == "rules":
		s.rules = append(s.rules, version{name: words[1]})
		return nil
	}
	st, err := parseStep(words)
	s.steps = append(s.steps, st)
	return err
}

func parseRule(text string) (r oracle.Rule, err error) {
	head, limits, _ := strings.Cut(text, ":")
	words := strings.Fields(head)
	r.Key = words[0]
	if r.Unlimited = words[len(words)-1] == "unlimited"; r.Unlimited {
		return r, nil
	}
	for _, word := range words[1:] {
		if lease, ok := strings.CutPrefix(word, "lease="); ok {
			r.Lease = lease
		} else {
			r.Mode = word
		}
	}
	for one := range strings.SplitSeq(limits, ";") {
		l, err := oracle.Parse(strings.TrimSpace(one))
		if err != nil {
			return r, err
		}
		r.Limits = append(r.Limits, l)
	}
	return r, nil
}

func parseStep(words []string) (s step, err error) {
	s.op = words[0]
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%q is no step", strings.Join(words, " "))
		}
	}()
	switch s.op {
	case "check":
		err = s.parseCheck(words)
	case "settle":
		s.receipt = words[1]
		for n := range strings.SplitSeq(words[3], ",") {
			s.used = append(s.used, atoi(n))
		}
	case "reload":
		s.version = words[1]
	case "reset":
		s.asks = []oracle.Descriptor{parseAsk(words[1])}
	case "except", "lapse":
		s.asks, s.node = []oracle.Descriptor{parseAsk(words[1])}, int(atoi(words[2]))
	case "clock", "wait":
		s.by, err = time.ParseDuration(words[1])
	case "flood":
		s.listener = words[1]
		from, to, _ := strings.Cut(words[3], "-")
		s.from, s.to = int(atoi(from)), int(atoi(to))
		s.asks = []oracle.Descriptor{{Key: words[2], Cost: atoi(words[5])}}
	case "store":
		s.what = words[1]
	case "leave", "kill":
		s.node = int(atoi(words[1]))
	case "restart", "join":
	default:
		err = fmt.Errorf("no step %q", s.op)
	}
	return s, err
}

func (s *step) parseCheck(words []string) error {
	s.listener = words[1]
	for i := 2; i < len(words); i++ {
		switch w := words[i]; w {
		case "receipt":
			i++
			s.receipt = words[i]
		case "peek":
			s.peek = true
		case "at":
			i++
			s.node = int(atoi(words[i]))
		default:
			s.asks = append(s.asks, parseAsk(w))
		}
	}
	if !slices.Contains(listeners, s.listener) {
		return fmt.Errorf("no listener %q", s.listener)
	}
	return nil
}

func parseAsk(text string) oracle.Descriptor {
	d := oracle.Descriptor{Cost: 1}
	text, override, _ := strings.Cut(text, "!")
	d.Override = strings.ReplaceAll(override, "_", " ")
	text, cost, ok := strings.Cut(text, "*")
	if ok {
		d.Cost = atoi(cost)
	}
	d.Key, d.Value, _ = strings.Cut(text, "=")
	return d
}

func atoi(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// fileOf is the rules as a rule file.
func fileOf(rules []oracle.Rule, sharing string) string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "- key: %s\n", r.Key)
		if sharing != "" {
			fmt.Fprintf(&b, "  sharing: %s\n", sharing)
		}
		switch r.Mode {
		case oracle.Quota:
			b.WriteString("  quota_mode: true\n")
		case oracle.Shadow:
			b.WriteString("  shadow_mode: true\n")
		case oracle.After:
			b.WriteString("  charge: after\n")
		}
		if r.Unlimited {
			b.WriteString("  rate_limit: {unlimited: true}\n")
			continue
		}
		if r.Lease != "" {
			fmt.Fprintf(&b, "  lease: %s\n", r.Lease)
		}
		b.WriteString("  limits:\n")
		for _, l := range r.Limits {
			if l.Name != "" {
				fmt.Fprintf(&b, "  - {name: %s, limit: %q}\n", l.Name, l.Text)
			} else {
				fmt.Fprintf(&b, "  - %q\n", l.Text)
			}
		}
	}
	return b.String()
}
