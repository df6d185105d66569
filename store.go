package weir

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Errors of a store.
var (
	// ErrSettled is returned for a receipt that was settled before.
	ErrSettled = errors.New("receipt was used before")
	// ErrExpired is returned for a receipt whose time is over.
	ErrExpired = errors.New("receipt has expired")
	// ErrNoPermit is returned when a receipt without a permit is to be renewed.
	ErrNoPermit = errors.New("nothing to renew: the receipt holds no permit")
	// ErrFull is returned by a take that asks for a receipt of a rule of which a store
	// remembers as many settled ones as it can, or for Once where it can't remember more
	// such takes. Settling is never refused for that.
	ErrFull = errors.New("too many receipts are remembered; try again later")
	// ErrAway is returned when the store can't be reached. Try again later.
	ErrAway = errors.New("the store is away; try again later")
	// ErrNoRefund is returned for a receipt of Limit.Refund by a store that lends
	// counts out: only charges that have a receipt can be given back there.
	ErrNoRefund = errors.New("a store that grants leases gives nothing back without a receipt")
	// ErrBusy is returned when so many want the same count at once that the store
	// gave up: nothing was decided. Try again later.
	ErrBusy = errors.New("too many takes of one key at once")
)

// StateKey names one count: of which rule, and whose. Two keys are the same
// count only when both parts are equal.
type StateKey struct {
	// Rule is the rule's place, never its numbers. The text after its last # tells the limits of
	// one descriptor apart; their counts are kept together.
	Rule string
	Key  string // whose count; any bytes, also none
}

// Brought begins the Rule of a count whose limit came with a request. Requests may
// bring any number of limits, so a store in memory gives the counts of all of them
// together as much room as one rule has.
const Brought = "brought "

// Placement is the part of Rule that says where a count is kept: counts of equal
// placement and Key are always decided together.
func (k StateKey) Placement() string {
	if i := strings.LastIndexByte(k.Rule, '#'); i >= 0 {
		return k.Rule[:i]
	}
	return k.Rule
}

// MaxCost is the largest cost of an ask: all that one request may be charged with
// adds up to less.
const MaxCost = 1 << 40

// Ask is one check: one limit decides about a cost of one key. A take has one ask or
// several. Each limit first says what it would do alone (Limit.Decide), then Resolve says
// what becomes of them together.
//
// The zero fields are the plain case: the whole cost, now or never, charged if the take
// passes, without a receipt.
type Ask struct {
	// State names the count. No two asks of a take may have the same.
	State StateKey
	// Limit decides, whichever limit the count was kept by before: see Kept.
	Limit *Limit
	// Cost is the events that the request is worth, 0…MaxCost. 0 charges
	// nothing; it is denied only while more than the limit is used.
	Cost int64
	// AtLeast makes the ask take what fits, from AtLeast up to Cost. 0 asks for
	// all of Cost. Several such asks in one take are granted the same, the least that
	// any of those enforced allows; one that wants more is denied, without a RetryAfter,
	// or impossible where another does not ask for so much.
	AtLeast int64
	// MaxHold is the longest that the caller is ready to wait before it goes.
	// GCRA and warm-up then reserve ahead instead of denying. 0 means no waiting,
	// but in a leaky-queue as long as its queue is. More than MaxWait counts as
	// MaxWait.
	MaxHold time.Duration
	// Peek decides without charging.
	Peek bool
	// Shadow decides and charges without a say: it is charged when the take
	// passes without it and it allows.
	Shadow bool
	// Quota denies only together: a take passes its quota asks if one of them
	// allows. One that denies beside it has no say, and is not charged.
	Quota bool
	// After reports work that is already done: it is always charged, beyond the
	// limit if need be, and Outcome says whether a next event would pass.
	After bool
	// Receipt is the id for a receipt of the charge, random and unlike any
	// other; 0 asks for none. Work reported After is done and gets none.
	Receipt uint64
	// Once makes the take charge at most once for its Receipt, which all its
	// asks share: a take that comes again within OnceLife of its charge, with the
	// same asks, gets the first answer. It is for callers who don't know whether
	// their first try was heard. A store knows the take again by its Receipt and by the
	// placement and Key of its first ask: for another key it is another take, and is
	// decided and charged. Without a Receipt, Once does nothing. A store that is not Atomic
	// takes it of one placement and Key only.
	Once bool
	// Own tells that Limit is of this Key alone, while other keys of the rule have another. A
	// store that keeps the states of a rule by one limit keeps this key's apart; others
	// leave it alone.
	Own bool
	// Evidence is filled in by a store with Traits.Evidence; nil: the caller wants none.
	Evidence *Evidence
	// Policy is for the code between a rule and its store. A store leaves it alone.
	Policy Policy
}

// ChargesOnce is whether a store remembers the first answer to a take whose first ask is a.
func (a *Ask) ChargesOnce() bool { return a.Once && !a.Peek && a.Receipt != 0 }

// Check says why no store decides the ask: it has no Limit, or its Cost or AtLeast is beyond
// its bounds.
func (a *Ask) Check() error {
	if a.Limit == nil {
		return fmt.Errorf("the ask of rule %q has no Limit; take one from weir.ParseLimit", a.State.Rule)
	}
	if uint64(a.Cost) > MaxCost || uint64(a.AtLeast) > uint64(a.Cost) {
		return fmt.Errorf("cost %d, at least %d: a cost is 0…2^40, and at least is 0…cost", a.Cost, a.AtLeast)
	}
	return nil
}

// OnceLife is how long a store remembers a take that asked for Once.
const OnceLife = time.Minute

// Traits say what a store promises. Rules are checked against them when they
// load.
type Traits struct {
	// Shared tells that the counts are those of all processes that use the store.
	Shared bool
	// Atomic tells that all asks of a take are decided at one moment. Else only
	// those of one placement and Key are; the other asks are taken one after the other and given
	// back when one denies: never more passes than any limit lets, but other takes may be denied
	// meanwhile.
	Atomic bool
	// OwnClock tells that the store has one clock for all; else each process
	// brings its own, and their skew adds to what passes.
	OwnClock bool
	// Late tells that each process decides by itself, and hears afterwards what others let pass: all
	// together let more pass than a limit does, as far as they are late.
	Late bool
	// Forgets tells that the store drops counts to make place, those that deny,
	// too. Such a key is as never used, and may pass once more what one like it
	// passes at once.
	Forgets bool
	// Evidence tells that the store fills in Ask.Evidence. It is optional: without it,
	// denials are not explained afterwards.
	Evidence bool
	// Bare tells that the store is elsewhere and has nothing around it that decides
	// while it is away, or that tells it afterwards: Ask.Policy has no effect.
	Bare bool
	// Unfit says why the store can't keep a limit, and what to take instead;
	// empty when it can. Nil: it keeps all.
	Unfit func(*Limit) string
}

// Unfit says why a store with these traits can't keep l, and what to take instead; empty when
// it can. Constructors ask, so that a limit that does not fit is found before the first request.
func (l *Limit) Unfit(store Traits) string {
	if store.Unfit == nil {
		return ""
	}
	return store.Unfit(l)
}

// Settlement is what is to become of a charge.
type Settlement struct {
	Receipt *Receipt
	// Used is what the work really cost. Less than was charged gives back what
	// is still outstanding of the rest; more charges the whole difference, even
	// beyond the limit and its debt: a bucket or queue owes it, a window stays above
	// its count until it ends. A permit is freed, whatever was used.
	Used int64
	// Renew extends a permit by its ttl instead, and keeps the receipt.
	Renew bool
	// Charged is filled in by the store: how many events of the charge its limit counts
	// once it is settled. It is more than Used where less was outstanding than was to be
	// given back, and less where a state can't hold so much: a bucket owes at most MaxCount
	// events beyond its burst, and what drains in MaxDrain. For a permit it is those
	// still held.
	Charged int64
}

// Store keeps states and decides atomically. Its methods may be called from
// many goroutines.
type Store interface {
	// Take decides the asks together: those that are enforced are charged if all
	// of them allow, and none otherwise. No two asks may name the same state.
	// out[i] answers asks[i]; the slices have the same length. An error means
	// that nothing was decided.
	Take(ctx context.Context, asks []Ask, out []Decision) error
	// Settle settles receipts of one take, and fills in Charged of each. It is refused
	// only with ErrSettled or ErrExpired, ErrNoPermit, or when the store can't be reached;
	// then it has changed nothing.
	Settle(ctx context.Context, settlements []Settlement) error
	// Reset forgets what was used.
	Reset(ctx context.Context, keys []StateKey) error
	// Traits are what the store promises.
	Traits() Traits
}

// Plain is a Store that decides about a cost of one key without Asks, which would be
// memory for each take. It is optional: a Limiter uses it where it is there.
type Plain interface {
	// TakeOne is Take with one Ask of a State, a Limit and a Cost of 0…MaxCount.
	TakeOne(ctx context.Context, key StateKey, l *Limit, cost int64) (Decision, error)
	// TakeAll is Take with an Ask of each limit: limits[i] counts key under rules[i], and
	// out[i] is its answer. The three have the same length.
	TakeAll(ctx context.Context, key string, rules []string, limits []*Limit, cost int64, out []Decision) error
}

// PlainWith is a Store that decides one limit about a cost with a policy, without an Ask. It is
// optional: a Limiter with a policy and one limit uses it where it is there.
type PlainWith interface {
	// TakeOneWith is Take with one Ask of a State, a Limit, a Cost of 0…MaxCount, and a Policy.
	TakeOneWith(ctx context.Context, p *Policy, key StateKey, l *Limit, cost int64) (Decision, error)
}

// QuotaPasses is whether quota asks let a take pass: there are none, or one
// allows. One in shadow lets all pass.
func QuotaPasses(asks []Ask, out []Decision) bool {
	some := false
	for i := range asks {
		if asks[i].Quota {
			some = true
			if asks[i].Shadow || out[i].Outcome == Allowed {
				return true
			}
		}
	}
	return !some
}

// Looker is a Store whose states can be seen. It is for explanations: what is
// seen may be old by the time that somebody asks.
type Looker interface {
	// Look is the state of each ask, as its limit would be given it by a Take at
	// now; nil is never used. All are of one moment, and the caller's to change.
	// It leaves no trace in the store.
	Look(ctx context.Context, asks []Ask) (now Instant, states []State, err error)
}

// Resolve says whether a take passes, given what each limit alone decided, and
// sets Charged and the granted Cost of each decision accordingly. Stores call
// it between Limit.Decide and Limit.Commit.
//
// It does so in two turns. Asks with AtLeast are all granted the least that one of those
// enforced allows; that may be too little for another, which is then denied, and so
// may turn the take. Which asks are denied never makes another's grant smaller, so a
// third turn would change nothing.
func Resolve(asks []Ask, out []Decision) bool {
	pass, grant := passes(asks, out)
	if pass && denyUnmet(asks, out, grant) {
		pass, _ = passes(asks, out)
	}
	for i := range asks {
		a, d := &asks[i], &out[i]
		if a.AtLeast > 0 && d.Outcome == Allowed {
			d.Cost = min(d.Cost, grant)
		}
		d.Charged = !a.Peek && d.Cost > 0 && (a.After || pass && d.Outcome == Allowed)
	}
	return pass
}

// passes is whether all that is enforced allows, and what is granted to asks that
// take what fits.
func passes(asks []Ask, out []Decision) (pass bool, grant int64) {
	pass, grant = QuotaPasses(asks, out), int64(math.MaxInt64)
	for i := range asks {
		if asks[i].Shadow || asks[i].Quota {
			continue
		}
		pass = pass && out[i].Outcome == Allowed
		if asks[i].AtLeast > 0 {
			grant = min(grant, out[i].Cost)
		}
	}
	return pass, grant
}

// denyUnmet denies asks that want more than what is granted to all, and says whether
// there are some. The grant is never more than the Cost of another,
// so one that wants more than that can never pass.
func denyUnmet(asks []Ask, out []Decision, grant int64) (some bool) {
	for i := range asks {
		d := &out[i]
		if asks[i].AtLeast <= grant || asks[i].After || d.Outcome != Allowed {
			continue
		}
		d.Outcome, d.Hold, some = Denied, 0, true
		for j := range asks {
			if o := &asks[j]; o.AtLeast > 0 && !o.Shadow && !o.Quota && o.Cost < asks[i].AtLeast {
				d.Outcome = Impossible
			}
		}
	}
	return some
}
