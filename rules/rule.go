package rules

import (
	"strings"

	"github.com/weir-limit/weir"
)

// Rule says that requests of some kind have a limit, or none. Rules are shared
// between goroutines: nothing of them may be changed.
type Rule struct {
	// Name is for people: the `name` of the descriptor, else
	// domain/key[=value]/…, with #NAME when the limit has a name, else #1, #2 … when
	// the descriptor has several. It has only bytes of A-Za-z0-9._~*/=- with others as
	// %XX.
	// The rule of an override is domain#override.
	//
	//	shop/user              the only limit of the descriptor user
	//	shop/path=/a*/user#2   the second of user below path=/a*
	//	shop/user#day          the one with the name day
	//
	// It may repeat, and may change while the count stays: nothing goes by it but people.
	Name string
	// Domain is the domain of the file, or that of the request that brought an override.
	Domain string
	// Path is the keys and values of the descriptor and those around it, as
	// written: * is a pattern, unless the descriptor says match: exact, and no value
	// means any. It is nil for an override.
	Path []Entry

	// Limit is what the descriptor allows; nil when Unlimited. A Limit never changes, so it
	// may be asked by many goroutines.
	Limit *weir.Limit
	// Unlimited matches, and gives no decision: it takes a request out of the reach of a
	// wider rule.
	Unlimited bool
	// Shadow is decided and reported, not enforced. It counts events that it would let pass, so
	// that it need not begin with an empty count when it is enforced.
	Shadow bool
	// After is `charge: after`: a take reports work that is already done, and is charged
	// past the limit if need be.
	After bool
	// Override was made of Descriptor.Override, not of a file.
	Override bool
	// Usual is the rule as it is for other keys, where an exception makes Limit that of one key; nil: no
	// exception does.
	Usual *Rule
	// Temporary is how an operator opened or tightened it for a time; nil: it is as written.
	Temporary *Temporary

	// QuotaPercent is the part of the limit that proxies divide among them; 0: the file gives them none.
	QuotaPercent int64
	// Whole is the limit as it is written, where it is divided: Quota is then the proxies' part, and Limit that
	// of other callers. Nil: Limit is the whole.
	Whole, Quota *weir.Limit

	// Envoy tells that the limit is in Envoy's form: rate_limit, or an override.
	Envoy bool
	// EnvoyName is rate_limit.name: what replaces speaks of. It may repeat.
	EnvoyName string
	// Replaces are the EnvoyNames that this rule takes out of a request.
	Replaces []string
	// QuotaMode limits deny a request only when all of its quota limits deny.
	QuotaMode bool
	// DetailedMetric, ValueToMetric and ShareThreshold are Envoy's, of this
	// descriptor. ShareThreshold: all values of a pattern have one count.
	DetailedMetric, ValueToMetric, ShareThreshold bool
	// Metadata goes back to Envoy with an answer. Its values are nil, bool,
	// int64, float64, string, []any and map[string]any.
	Metadata map[string]any

	Owner string // the team that answers for the rule, as the file names it; may be empty

	// Policy is what the file says of it; its Fallback is FallbackLocal when the file
	// says nothing. With stores that are no cluster, Sharing and Partition have no effect.
	weir.Policy

	File         string // where it stands; empty for an override
	Line, Column int

	// at is where the limit's text stands; Line and Column are those of the descriptor. An
	// unlimited rule has none.
	at position
	// values tells which entries of a request AppendValues takes, by entry; nil: none.
	values []bool
	// open tells which words of a request make the key of the count: those that the
	// descriptor leaves open, as a key without a value does.
	open openWords
	// literal tells by bit which entries of Path have a * that is no pattern: `match: exact`.
	literal uint16
	// place names the count for the store: the way to the descriptor and the
	// limit's name, or what weir.StateRules has for those without, so that a limit
	// that was changed keeps what was used. Unlike Name it is of one rule only.
	place string
	// hash is of place, for a quick look whether the rule has exceptions; 0: it can have none.
	hash uint64
}

// LimitAt is where the text of the limit stands; of an unlimited rule it is where the descriptor
// does. Both count from 1, and a column counts characters.
func (r *Rule) LimitAt() (line, column int) {
	if r.Unlimited {
		return r.Line, r.Column
	}
	return r.at.line, r.at.column
}

// State is where the count of this rule is kept for a key of Set.Match. It has nothing of the limit's
// numbers, so that a rule that is changed goes on with the same count.
func (r *Rule) State(key string) weir.StateKey {
	return weir.StateKey{Rule: r.place, Key: key}
}

// Ask is what to ask a store about cost events of a key of Set.Match. The rule
// is not unlimited.
func (r *Rule) Ask(key string, cost int64) weir.Ask {
	return weir.Ask{
		State: r.State(key), Limit: r.Limit, Cost: cost, Shadow: r.Shadow, Quota: r.QuotaMode, After: r.After,
		Own: r.Usual != nil, Policy: r.Policy,
	}
}

// Written is the limit as the file has it; nil where the rule is unlimited.
func (r *Rule) Written() *weir.Limit {
	if r.Whole != nil {
		return r.Whole
	}
	return r.Limit
}

// ruleName is the name of the descriptor at path, for people.
func ruleName(name, domain string, path []Entry) string {
	if name != "" {
		return escape(name, "/=")
	}
	return pathText(domain, path, "/=")
}

// placeOf is a text that no other descriptor of any domain has: in its words / and = are
// escaped, so that no word can end early.
func placeOf(domain string, path []Entry) string { return pathText(domain, path, "") }

// pathText is domain/key=value/key… with escaped words, but for the bytes of also.
func pathText(domain string, path []Entry, also string) string {
	var b strings.Builder
	b.WriteString(escape(domain, also))
	for _, e := range path {
		b.WriteString("/" + escape(e.Key, also))
		if e.Value != "" {
			b.WriteString("=" + escape(e.Value, also))
		}
	}
	return b.String()
}

// overrideRule is the rule of a request's own limit. Its count belongs to the
// domain, the limit and the entries: requests may bring different limits for the
// same entries by turns, and none of them is a later version of another. The
// name is one for all, so that no caller can make many.
func overrideRule(domain string, d *Descriptor) *Rule {
	l, all := d.Override, firstBits(len(d.Entries))
	return &Rule{
		Name: ruleName("", domain, nil) + "#override", Domain: domain,
		Limit: l, Override: true, Envoy: true, Policy: weir.Policy{Fallback: weir.FallbackLocal},
		open:  openWords{all, all},
		place: weir.Brought + placeOf(domain, nil) + "#override/" + escape(l.String(), ""),
	}
}

// escape writes all bytes but letters, digits, . _ ~ * - and those of also as
// %XX. Names of rules come from files and go to logs, metrics and header fields: escaped they are
// safe in each of them.
func escape(text, also string) string {
	return string(appendEscaped(make([]byte, 0, len(text)), text, also))
}

func appendEscaped(b []byte, text, also string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("._~*-", c) >= 0, strings.IndexByte(also, c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}
