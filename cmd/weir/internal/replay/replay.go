// Package replay asks rules about the requests of an access log, on the log's
// own time, and reports what they would have done.
//
// Every rule whose keys a line has is asked, whatever the others say: one key
// path, such as path and then remote_address, is one descriptor, and is asked
// once for each line that has all its fields. Limits of one descriptor are
// charged together or not at all, as in production.
//
// A usage log has no requests, but what rules decided for keys: usage.go asks the rules of the same
// names again.
//
// feed.go reads ahead on a goroutine of its own, judge.go asks one set of rules, whatif.go
// tells two apart.
package replay

import (
	"context"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// Question is what to ask about a log.
type Question struct {
	Rules   *rules.Set
	Against *rules.Set // other rules for the same requests; nil for none
	Domain  string     // whose rules are asked; empty for all
	Costs   bool       // a line is worth its accesslog.Line.Cost; else 1
}

// Log asks rules about the lines of a log. The error is an *accesslog.InputError when
// there is no such domain, and the log's when that can't be read.
func Log(ctx context.Context, q Question, log *accesslog.Reader) (*Report, error) {
	p, err := newPlayer(q)
	if err != nil {
		return nil, err
	}
	return p.play(ctx, log)
}

// Each calls f for all lines of a log in the order of their times, with what they
// say of the fields; a value is empty where a line has none. f must not keep
// values.
func Each(ctx context.Context, log *accesslog.Reader, fields []accesslog.Field, f func(at weir.Instant, values []string) error) (*LogReport, error) {
	lines := newLines(log, fields, false)
	if err := lines.each(ctx, func(at weir.Instant, r *request) error { return f(at, r.values) }); err != nil {
		return nil, err
	}
	return lines.report(), nil
}

// player asks rules about one request after the other.
type player struct {
	fields  []accesslog.Field // that questions are about
	judge   *judge
	against *judge // nil for none
	differs difference
	passed  int64
	costs   bool // as Question.Costs
}

func newPlayer(q Question) (*player, error) {
	p := player{costs: q.Costs}
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
	}
	p.fields = fieldsOf(questions)
	p.judge.look(p.fields)
	if p.against != nil {
		p.against.look(p.fields)
	}
	return &p, nil
}

// play asks about all lines of a log.
func (p *player) play(ctx context.Context, log *accesslog.Reader) (*Report, error) {
	lines := newLines(log, p.fields, p.costs)
	if err := lines.each(ctx, p.decide); err != nil {
		return nil, err
	}
	return p.report(lines), nil
}

func (p *player) decide(at weir.Instant, r *request) error {
	if err := p.judge.decide(at, r); err != nil {
		return err
	}
	if p.judge.passed {
		p.passed++
	}
	if p.against == nil {
		return nil
	}
	if err := p.against.decide(at, r); err != nil {
		return err
	}
	p.differs.compare(at, p.judge, p.against)
	return nil
}

// report is what was counted.
func (p *player) report(lines *lines) *Report {
	report := &Report{Rules: p.judge.report(), Log: *lines.report()}
	report.Log.Passed = new(p.passed)
	report.Log.Forgotten = p.judge.forgotten()
	if p.against != nil {
		report.Log.Forgotten += p.against.forgotten()
		report.WhatIf = p.differs.report(p.judge, p.against)
	}
	return report
}
