package grpclimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// settler settles receipts of one take, or renews the permits among them, as
// rules.Limiter.Settle does.
type settler func(ctx context.Context, receipts []*weir.Receipt, used []int64, renew bool) (charged []int64, err error)

// patience is how long a store may take to settle. The client may be gone, but
// permits must come back.
const patience = 2 * time.Second

// permits are those that a call holds until it ends. They are renewed meanwhile,
// so that a call that takes longer than their ttl still counts. A nil one holds
// none.
type permits struct {
	server   *Server
	receipts []*weir.Receipt
	every    time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil once the call has ended
}

// hold keeps the permits among receipts.
func (s *Server) hold(receipts []*weir.Receipt) *permits {
	p := &permits{server: s}
	for _, r := range receipts {
		if r.Limit.Algorithm() != weir.Concurrent {
			continue
		}
		ttl := r.Limit.Spec().TTL
		if p.every == 0 || ttl/3 < p.every {
			p.every = ttl / 3
		}
		p.receipts = append(p.receipts, r)
	}
	if len(p.receipts) == 0 {
		return nil
	}
	p.mu.Lock() // the timer may be faster than its being noted
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.every, p.renew)
	return p
}

func (p *permits) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.server.settle(ctx, p.receipts, nil, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	if err != nil {
		p.server.warn(warnedKept, ctx, err)
	}
	p.timer.Reset(p.every)
}

// end frees the permits, whether the handler has returned or panics.
func (p *permits) end(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.timer.Stop()
	p.timer = nil
	p.mu.Unlock()
	used := make([]int64, len(p.receipts))
	for i, r := range p.receipts {
		used[i] = r.Cost
	}
	p.server.finish(ctx, p.receipts, used)
}

// giveBack returns all that a call was charged, which did not go.
func (s *Server) giveBack(ctx context.Context, receipts []*weir.Receipt) {
	if len(receipts) > 0 {
		s.finish(ctx, receipts, make([]int64, len(receipts)))
	}
}

func (s *Server) finish(ctx context.Context, receipts []*weir.Receipt, used []int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if _, err := s.settle(ctx, receipts, used, false); err != nil && !errors.Is(err, weir.ErrExpired) {
		s.warn(warnedKept, ctx, err) // its ttl frees it
	}
}
