// Package replay asks rules about the requests of an access log, on the log's
// own time, and reports what they would have done.
//
// Every rule whose keys a line has is asked, whatever the others say: one key
// path, such as path and then remote_address, is one descriptor, and is asked
// once for each line that has all its fields. Limits of one descriptor are
// charged together or not at all, as in production.
package replay

import (
	"context"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// Question is what to ask about a log.
type Question struct {
	Rules   *rules.Set
	Against *rules.Set // other rules for the same requests; nil for none
	Domain  string     // whose rules are asked; empty for all
	Costs   bool       // a line is worth its accesslog.Line.Cost; else 1
}

// Log asks rules about the lines of a log. The error is an *InputError when
// there is no such domain, and the log's when that can't be read.
func Log(ctx context.Context, q Question, log *accesslog.Reader) (*Report, error) {
	p, err := newPlayer(q)
	if err != nil {
		return nil, err
	}
	p.feed.log = log
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go p.feed.run(reading)
	if err := p.play(ctx); err != nil {
		return nil, err
	}
	return p.report(), nil
}

// player asks the rules about one line after the other.
type player struct {
	feed  feed
	order *accesslog.Reorder[request]
	judge *judge

	against *judge // nil for none
	differs *difference

	lines    int64
	from, to weir.Instant
}

func newPlayer(q Question) (*player, error) {
	p := &player{
		feed:  feed{costs: q.Costs, lines: make(chan []entry, maxBatches)},
		order: accesslog.NewReorder[request](),
	}
	var err error
	if p.judge, err = newJudge(q.Rules, q.Domain); err != nil {
		return nil, err
	}
	questions := p.judge.questions
	if q.Against != nil {
		if p.against, err = newJudge(q.Against, q.Domain); err != nil {
			return nil, err
		}
		questions = slices.Concat(questions, p.against.questions)
		p.differs = new(difference)
	}
	p.feed.fields = fieldsOf(questions)
	p.judge.look(p.feed.fields)
	if p.against != nil {
		p.against.look(p.feed.fields)
	}
	return p, nil
}

// play decides all lines of the feed. It waits for no line when ctx is done.
func (p *player) play(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch, more := <-p.feed.lines:
			if !more && p.feed.err != nil {
				return p.feed.err
			}
			if !more {
				p.order.End()
				return p.decideDue()
			}
			for i := range batch {
				p.order.Push(batch[i].at, batch[i].size, batch[i].request)
				if err := p.decideDue(); err != nil {
					return err
				}
			}
		}
	}
}

// decideDue decides the lines that no older one can come before.
func (p *player) decideDue() error {
	for at, r, ok := p.order.Pop(); ok; at, r, ok = p.order.Pop() {
		if p.lines == 0 {
			p.from = at
		}
		p.lines++
		p.to = at
		if err := p.judge.decide(at, &r); err != nil {
			return err
		}
		if p.against == nil {
			continue
		}
		if err := p.against.decide(at, &r); err != nil {
			return err
		}
		p.differs.compare(at, p.judge, p.against)
	}
	return nil
}

// report is what was counted.
func (p *player) report() *Report {
	log := p.feed.log
	report := &Report{Rules: p.judge.report(), Log: LogReport{
		Lines: p.lines, Skipped: log.Skipped, Late: p.order.Late, Early: p.order.Early,
		TooLong: p.feed.tooLong, Costless: p.feed.refused, Forgotten: p.judge.forgotten(), Damaged: log.Damaged,
	}}
	if p.lines > 0 {
		report.Log.From, report.Log.To = new(Time(p.from)), new(Time(p.to))
	}
	if p.against != nil {
		report.Log.Forgotten += p.against.forgotten()
		report.WhatIf = p.differs.report(p.judge, p.against)
	}
	return report
}
