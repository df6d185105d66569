package replay

import (
	"context"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
)

// lines is the lines of a log on their way from the feed into the order of their
// times.
type lines struct {
	feed     feed
	order    *accesslog.Reorder[request]
	count    int64
	from, to weir.Instant
}

func newLines(log *accesslog.Reader, fields []accesslog.Field, costs bool) *lines {
	return &lines{
		feed:  feed{log: log, fields: fields, costs: costs, batches: make(chan []entry, maxBatches)},
		order: accesslog.NewReorder[request](),
	}
}

// each calls f for all lines. It waits for no line when ctx is done.
func (l *lines) each(ctx context.Context, f func(at weir.Instant, r *request) error) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go l.feed.run(reading)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch, more := <-l.feed.batches:
			if !more && l.feed.err != nil {
				return l.feed.err
			}
			if !more {
				l.order.End()
				return l.due(f)
			}
			for i := range batch {
				l.order.Push(batch[i].at, batch[i].size, batch[i].request)
				if err := l.due(f); err != nil {
					return err
				}
			}
		}
	}
}

// due calls f for the lines that no older one can come before.
func (l *lines) due(f func(at weir.Instant, r *request) error) error {
	for at, r, ok := l.order.Pop(); ok; at, r, ok = l.order.Pop() {
		if l.count == 0 {
			l.from = at
		}
		l.count++
		l.to = at
		if err := f(at, &r); err != nil {
			return err
		}
	}
	return nil
}

// report is what was read.
func (l *lines) report() *LogReport {
	report := &LogReport{
		Lines: l.count, Skipped: l.feed.log.Skipped, Late: l.order.Late, Early: l.order.Early,
		TooLong: l.feed.tooLong, Costless: l.feed.refused, Damaged: l.feed.log.Damaged,
	}
	if l.count > 0 {
		report.From, report.To = new(Time(l.from)), new(Time(l.to))
	}
	return report
}
