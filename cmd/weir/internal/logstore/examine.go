package logstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/sleep"
)

// Examination is what weir doctor tells of a log.
type Examination struct {
	Kind, Name           string // of broker and log, and the name of the log
	Partitions, Replicas int
	Kept                 time.Duration   // −1: for ever; 0: unknown
	Lags                 []time.Duration // measured, sorted
	Findings             []Finding
}

// Finding is what is unwise, and what to do, after a semicolon.
type Finding struct {
	Fault bool // it keeps the store from its work
	Text  string
}

const (
	// examineLags is how many lags are measured.
	examineLags = 12
	// muchLag is a lag that is far from that of a log that is well.
	muchLag = bounds.LogMost / 4
)

// Examine looks at a log. It fails when no broker answers. It makes no topic, and appends nothing but
// beats.
func Examine(ctx context.Context, url string) (*Examination, error) {
	place, err := placeOf(url)
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	log, err := place.open()
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	defer log.close()
	x := &Examination{Kind: place.kind, Name: place.name}
	asking, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	found, err := log.find(asking)
	if errors.Is(err, errRefused) {
		x.find(true, "%v", err)
		return x, nil
	}
	if err != nil {
		return nil, fmt.Errorf("logstore: %s %s: %w", place.kind, place.name, err)
	}
	set, err := log.settings(asking, bounds.LogBack)
	x.Partitions, x.Replicas, x.Kept, x.Findings = found.partitions, set.replicas, set.kept, set.findings
	if err != nil {
		x.find(false, "%v", err)
	}
	if found.partitions == 0 {
		return x, nil
	}
	return x, x.measure(ctx, url)
}

func (x *Examination) find(fault bool, format string, args ...any) {
	x.Findings = append(x.Findings, finding(fault, format, args...))
}

// measure measures the lag as a process at the log does.
func (x *Examination) measure(ctx context.Context, url string) error {
	for _, f := range x.Findings {
		if f.Fault {
			return nil
		}
	}
	s, err := Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	s.Start(0, slog.New(slog.DiscardHandler))
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := s.Caught(opening); err != nil {
		x.find(true, "the log can't be used: %v; see to the broker, and to the rights of this user", err)
		return nil
	}
	for range examineLags {
		if err := sleep.For(ctx, bounds.LogBeat); err != nil {
			return err
		}
		x.Lags = append(x.Lags, s.Stats().Lag)
	}
	slices.Sort(x.Lags)
	if worst := x.Lags[len(x.Lags)-1]; worst > muchLag {
		x.find(false, "the lag was %v once, and above %v the fallbacks of the rules decide; go nearer to the brokers, or relieve them",
			worst.Round(time.Millisecond), bounds.LogMost)
	}
	if st := s.Stats(); st.Foreign+st.Newer > 0 {
		x.find(false, "%d messages of other programs or versions came meanwhile; give Weir a topic of its own, and bring all daemons to one version", st.Foreign+st.Newer)
	}
	return nil
}
