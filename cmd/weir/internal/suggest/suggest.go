// Package suggest finds limits for the clients of an access log: how much they
// ask for, and what a limit at that would have done to them.
//
// It reads the log three times. First it finds each client's peak: the most
// requests in any window, wherever that begins. A percentile of the peaks, and a
// quarter more, is the count of a limit. Then it finds for that count the burst
// that each client needs never to be denied; the same percentile of these, and a
// quarter more, is the burst. At last it replays the log by these limits.
package suggest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/replay"
	"github.com/weir-limit/weir/rules"
)

// Options say what to look at. Log and By are required.
type Options struct {
	Log    string            // the file; it is read three times, so that it can't be stdin
	Format accesslog.Format  // of the log
	By     []accesslog.Field // what makes a client, each field once
	Per    Window            // what the limits are per; zero means a minute
	// Progress is told how many bytes of the log are done, of three times its
	// size; nil for nobody.
	Progress func(done, total int64)
}

// ParseBy is the fields of a list joined by commas.
func ParseBy(list string) ([]accesslog.Field, error) {
	var by []accesslog.Field
	seen := map[accesslog.Field]bool{}
	for name := range strings.SplitSeq(list, ",") {
		f, ok := accesslog.FieldOf(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is nothing that a log offers: take some of remote_address, method, path, host, user, status, user_agent and referer, joined by commas", name)
		case seen[f]:
			return nil, fmt.Errorf("%s is there twice", name)
		}
		seen[f] = true
		by = append(by, f)
	}
	return by, nil
}

// marks are the percentiles of clients that limits are made for.
var marks = [...]struct {
	name    string
	percent int64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}}

// Run reads the log and suggests limits. The error is a *accesslog.InputError when
// the log is at fault, or nothing in it can be told by.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Per == "" {
		o.Per = Minute
	}
	r := &Report{By: o.By, Per: o.Per}
	peaks := newPeaks(o.Per)
	log, err := o.each(ctx, 0, func(at weir.Instant, values []string) error { return peaks.count(at, keyOf(values)) })
	if err != nil {
		return nil, err
	}
	if len(peaks.all) == 0 {
		return nil, &accesslog.InputError{Err: fmt.Errorf("no line of %s has %s", o.Log, strings.Join(r.names(), " and "))}
	}
	r.Log, r.Sampled = *log, peaks.mask > 0
	for i, m := range marks {
		peak := percentile(peaks.peaks(), m.percent)
		r.Suggestions = append(r.Suggestions, Suggestion{Mark: m.name, Peak: peak})
		r.Suggestions[i].count = roomy(peak)
	}
	needs := newNeeds(&peaks.clients, o.Per, r.Suggestions)
	if _, err := o.each(ctx, 1, func(at weir.Instant, values []string) error { needs.count(at, keyOf(values)); return nil }); err != nil {
		return nil, err
	}
	for i, m := range marks {
		s := &r.Suggestions[i]
		s.Limit = limitText(s.count, min(roomy(percentile(needs.of(i), m.percent)), s.count), o.Per)
	}
	return r, o.try(ctx, r)
}

// each calls f with the values of all lines that have all fields of By.
func (o *Options) each(ctx context.Context, pass int64, f func(at weir.Instant, values []string) error) (*replay.LogReport, error) {
	var log *replay.LogReport
	err := o.read(pass, func(r *accesslog.Reader) (err error) {
		log, err = replay.Each(ctx, r, o.By, func(at weir.Instant, values []string) error {
			if slices.Contains(values, "") {
				return nil
			}
			return f(at, values)
		})
		return err
	})
	switch {
	case err != nil || log.Lines > 0:
		return log, err
	case log.Skipped == 0:
		return nil, &accesslog.InputError{Err: fmt.Errorf("%s has no lines", o.Log)}
	}
	return nil, &accesslog.InputError{Err: fmt.Errorf("no line of %s could be read in the format %v", o.Log, o.Format)}
}

// read opens the log and reads it, for the pass-th time.
func (o *Options) read(pass int64, read func(*accesslog.Reader) error) error {
	progress := o.Progress
	if progress != nil {
		progress = func(done, total int64) { o.Progress(pass*total+done, 3*total) }
	}
	file, err := accesslog.OpenFile(o.Log, progress)
	if err == nil {
		defer file.Close()
		if err = read(accesslog.NewReader(file, o.Format, "")); err != nil {
			err = fmt.Errorf("read %s: %w", o.Log, err)
		}
	}
	return err
}

// try replays the log by all suggestions at once. In shadow they leave each
// other alone.
func (o *Options) try(ctx context.Context, r *Report) error {
	var limits []string
	for _, s := range r.Suggestions {
		limits = append(limits, fmt.Sprintf("{name: %s, limit: %s}", s.Mark, s.Limit))
	}
	set, err := rules.Parse("suggested", []byte(ruleText(r.By, "["+strings.Join(limits, ", ")+"]")))
	if err != nil {
		return fmt.Errorf("rules of suggestions: %w", err)
	}
	return o.read(2, func(log *accesslog.Reader) error {
		report, err := replay.Log(ctx, replay.Question{Rules: set}, log)
		if err != nil {
			return err
		}
		for i := range r.Suggestions {
			s, rule := &r.Suggestions[i], &report.Rules[i]
			s.Clients, s.ClientsDenied, s.More = rule.Keys, rule.KeysDenied, rule.KeysMore
			s.Requests, s.RequestsDenied = rule.Asked, rule.Denied
		}
		return nil
	})
}

// limitText is a limit of count events per window, with a burst.
func limitText(count, burst int64, per Window) string {
	text := fmt.Sprintf("%d/%s", count, per)
	if burst < count {
		text += fmt.Sprintf(" burst %d", burst)
	}
	return text
}

// roomy is n and a quarter more, rounded up to two digits, within what a limit
// may be.
func roomy(n int64) int64 {
	n = (n*5 + 3) / 4
	digit := int64(1)
	for n/digit >= 100 {
		digit *= 10
	}
	return min((n+digit-1)/digit*digit, weir.MaxCount)
}
