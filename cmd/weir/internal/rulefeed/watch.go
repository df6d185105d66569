package rulefeed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weir-limit/weir/internal/sleep"
)

// Watch tells of each change until ctx ends, from this goroutine: of new rules and
// revisions, of overrides that end, of a database that is away and back. The rules
// of News are always whole and checked.
func (f *Feed) Watch(ctx context.Context, tell func(News)) {
	told := f.news(nil) // by Load
	for ctx.Err() == nil {
		before := maps.Clone(f.domains)
		err := f.next(ctx)
		if ctx.Err() != nil {
			break
		}
		f.away = err
		f.endOverrides(time.Now())
		f.keepCopy(false)
		changed := f.changedSince(before)
		if n := f.news(changed); len(changed) > 0 || n.Revision != told.Revision || errorText(n.Err) != errorText(told.Err) {
			told = n
			tell(n)
		}
		if err != nil {
			_ = sleep.For(ctx, retryEvery) // the loop ends with ctx
		}
	}
	f.keepCopy(true)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// next waits for a change and reads it, or for the time of something else to do.
func (f *Feed) next(ctx context.Context) error {
	s, err := f.reach(ctx)
	if err != nil {
		return err
	}
	if f.away != nil { // whether it is back, a change need not tell
		return f.read(ctx)
	}
	waiting, stop := context.WithDeadline(ctx, f.wake(time.Now()))
	defer stop()
	if _, err := s.Wait(waiting, f.revision); err != nil {
		if waiting.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	return f.read(ctx)
}

// wake is when there is something to do without a change.
func (f *Feed) wake(now time.Time) time.Time {
	at := now.Add(time.Minute)
	if f.dirty && f.options.Copy != "" {
		at = f.copied.Add(copyEvery)
	}
	if due := f.exceptionsCopied.Add(exceptionsEvery); f.exceptionsDirty && f.options.Copy != "" && due.Before(at) {
		at = due
	}
	for _, d := range f.domains {
		if !d.until.IsZero() && d.until.Before(at) {
			at = d.until
		}
	}
	return at
}

// endOverrides puts domains in force anew whose override has ended.
func (f *Feed) endOverrides(now time.Time) {
	for _, d := range f.domains {
		if !d.until.IsZero() && !d.until.After(now) {
			f.take(d.document, now)
		}
	}
}

// keepCopy writes a copy when it is due, or at once at the end.
func (f *Feed) keepCopy(end bool) {
	f.keepExceptions(end)
	if !f.dirty || f.options.Copy == "" || !end && time.Since(f.copied) < copyEvery {
		return
	}
	k := kept{Revision: f.revision}
	for _, name := range f.names() {
		k.Documents = append(k.Documents, f.domains[name].document)
	}
	f.copied = time.Now() // a disk that is full is not tried without a pause either
	if f.uncopied = writeCopy(f.options.Copy, k); f.uncopied == nil {
		f.dirty = false
	}
}

// changedSince is the names of domains that are others now, sorted.
func (f *Feed) changedSince(before map[string]*domain) (names []string) {
	for name, d := range f.domains {
		if before[name] != d {
			names = append(names, name)
		}
		delete(before, name)
	}
	for name := range before { // taken away
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
