package rls

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/h2"
	"github.com/weir-limit/weir/internal/limittext"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/storewire"
)

// The bounds of what programs that borrow the store may make of it.
const (
	// MaxLentRules is how many rules of theirs the store is asked to keep apart, all
	// programs together.
	MaxLentRules = 1 << 12
	// lentLeast is how long a rule has its place among them that is asked for no more
	// and whose counts are all as never used; lentSweep is how often is looked.
	lentLeast = weir.ReceiptLife
	lentSweep = time.Minute
	// maxLentNames is how many bytes the names of these rules have in all.
	maxLentNames = 8 << 20
	// maxAtOnce is how many takes of one call are decided at a time by a store
	// outside of the process.
	maxAtOnce = 64
)

// lentMark tells the rules of programs from those of the daemon.
const lentMark = "client\x00"

// Lending is how the store is lent to programs.
type Lending struct {
	// Store is asked. It fails when it is away: the fallbacks are the programs'. Where
	// it gives evidence, programs are told what denials stood on.
	Store weir.Store
	// Parted tells that a count is spread over nodes, so that the state which one of
	// them decides by is not the whole: programs are not told it of takes that pass.
	Parted bool
	// Token is whether a token opens. Nil: none is needed.
	Token func([]byte) bool
	// Refused is called for each call that is not let in.
	Refused func()
	// Rules is called with the number of rules that programs have, when it has
	// changed, and with whether one was refused for being beyond MaxLentRules.
	Rules func(known int, refused bool)
}

// admit lets calls in that show a token, where one is needed.
func (l *Lending) admit(head *h2.Head) error {
	if l.Token == nil {
		return nil
	}
	for i := range head.Len() {
		name, shown := head.At(i)
		if token, ok := bytes.CutPrefix(shown, []byte("Bearer ")); ok && string(name) == "authorization" && l.Token(token) {
			return nil
		}
	}
	l.Refused()
	return status.Error(codes.Unauthenticated, "the store of this daemon needs a token: one of its --grpc-store-token-file")
}

// lender answers storewire.Service.
type lender struct {
	*Lending

	server *Server
	shared bool // the store is outside: takes of a call are decided side by side
	limits limittext.Cache
	rules  lentRules
}

func newLender(s *Server) *lender {
	l := &lender{Lending: s.options.Store, server: s, shared: s.options.Store.Store.Traits().Shared}
	l.rules.seed = maphash.MakeSeed()
	return l
}

// register adds the methods of the store.
func (l *lender) register(methods map[string]*method) {
	add(methods, "Take", l.take, func() *storewire.TakeRequest { return &storewire.TakeRequest{Limits: l.limits.Get} })
	add(methods, "Settle", l.settle, func() *storewire.SettleRequest { return &storewire.SettleRequest{Limits: l.limits.Get} })
	add(methods, "Reset", l.reset, func() *storewire.ResetRequest { return new(storewire.ResetRequest) })
	add(methods, "Describe", l.describe, func() *storewire.DescribeRequest { return new(storewire.DescribeRequest) })
}

// add adds one of them.
func add[Q storewire.Read](methods map[string]*method, name string, answer func(context.Context, Q) storewire.Written, request func() Q) {
	methods["/"+storewire.Service+"/"+name] = &method{name: name, store: true, answer: func(ctx context.Context, m *message, dst []byte) ([]byte, error) {
		q := request()
		if err := q.Parse(bytes.Clone(m.text)); err != nil {
			return dst, status.Error(codes.InvalidArgument, "this can't be asked of "+name+": "+err.Error())
		}
		return answer(ctx, q).Append(dst), nil
	}}
}

func (l *lender) take(ctx context.Context, q *storewire.TakeRequest) storewire.Written {
	r := &storewire.TakeResponse{Answers: make([]storewire.Answer, len(q.Takes))}
	if !l.shared || len(q.Takes) == 1 {
		for i := range q.Takes {
			r.Answers[i] = l.takeOne(ctx, q.Takes[i], q.Errs[i])
		}
		return r
	}
	var all errgroup.Group
	all.SetLimit(maxAtOnce)
	for i := range q.Takes {
		all.Go(func() error {
			defer func() {
				if p := recover(); p != nil {
					r.Answers[i] = storewire.Answer{Err: l.server.panicked("Take", p)}
				}
			}()
			r.Answers[i] = l.takeOne(ctx, q.Takes[i], q.Errs[i])
			return nil
		})
	}
	_ = all.Wait() // errors are in the answers
	return r
}

func (l *lender) takeOne(ctx context.Context, asks []weir.Ask, bad error) storewire.Answer {
	if bad == nil {
		bad = meant(asks)
	}
	if bad != nil {
		return storewire.Answer{Err: &record.AskError{Err: bad}}
	}
	rules := make([]*lentRule, len(asks))
	for i := range asks {
		var err error
		if rules[i], err = l.admitRule(asks[i].State.Rule); err != nil {
			return storewire.Answer{Err: err}
		}
		asks[i].State.Rule = lentMark + asks[i].State.Rule
	}
	answer := l.decide(ctx, asks)
	out := answer.Decisions
	now := weir.InstantOf(time.Now())
	for i := range out {
		rules[i].keep(now, out[i].ResetAfter)
		if r := out[i].Receipt; r != nil {
			own := *r // the store may remember r
			own.State.Rule = strings.TrimPrefix(own.State.Rule, lentMark)
			out[i].Receipt = &own
		}
	}
	return answer
}

// decide has the store decide, and notes what a denial stood on, or any take that asks
// for its evidence.
func (l *lender) decide(ctx context.Context, asks []weir.Ask) storewire.Answer {
	out, seen := make([]weir.Decision, len(asks)), make([]weir.Evidence, len(asks))
	wanted := false
	for i := range asks {
		seen[i].Always = asks[i].Evidence != nil && !l.Parted
		wanted = wanted || seen[i].Always
		asks[i].Evidence = &seen[i]
	}
	answer := storewire.Answer{Decisions: out, Err: l.Store.Take(ctx, asks, out)}
	words := 0
	for i := range seen {
		words += len(seen[i].State)
	}
	denied := slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Outcome == weir.Denied })
	if words > storewire.MaxWords || !denied && !wanted {
		return answer
	}
	for _, e := range seen {
		if e.Told {
			answer.Now, answer.States = e.At, append(answer.States, e.State)
		}
	}
	return answer
}

func (l *lender) settle(ctx context.Context, q *storewire.SettleRequest) storewire.Written {
	for i := range q.Settlements {
		if err := settles(&q.Settlements[i]); err != nil {
			return &storewire.SettleResponse{Err: &record.AskError{Err: err}}
		}
		r := q.Settlements[i].Receipt
		if _, err := l.admitRule(r.State.Rule); err != nil {
			return &storewire.SettleResponse{Err: err}
		}
		r.State.Rule = lentMark + r.State.Rule
	}
	err := l.Store.Settle(ctx, q.Settlements)
	return &storewire.SettleResponse{Settlements: q.Settlements, Err: err}
}

func (l *lender) reset(ctx context.Context, q *storewire.ResetRequest) storewire.Written {
	for i := range q.Keys {
		if _, err := l.admitRule(q.Keys[i].Rule); err != nil {
			return &storewire.FaultResponse{Err: err}
		}
		q.Keys[i].Rule = lentMark + q.Keys[i].Rule
	}
	return &storewire.FaultResponse{Err: l.Store.Reset(ctx, q.Keys)}
}

func (l *lender) describe(_ context.Context, q *storewire.DescribeRequest) storewire.Written {
	r := &storewire.DescribeResponse{Traits: l.Store.Traits()}
	for _, text := range q.Limits {
		why := ""
		if limit, err := l.limits.Get(text); err != nil {
			why = err.Error()
		} else {
			why = limit.Unfit(r.Traits)
		}
		r.Unfit = append(r.Unfit, why)
	}
	return r
}

// admitRule is a rule of a program that has a place, or gets one.
func (l *lender) admitRule(rule string) (*lentRule, error) {
	is, known, changed := l.rules.admit(rule, weir.InstantOf(time.Now()))
	if changed || is == nil {
		l.Rules(known, is == nil)
	}
	if is == nil {
		return nil, errTooManyRules
	}
	return is, nil
}
