package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/logstore"
)

// examineLog fails when no broker answers.
func examineLog(ctx context.Context, url string) (*examined, error) {
	s, err := logstore.Examine(ctx, url)
	if err != nil {
		return nil, err
	}
	x := &examined{
		Server: fmt.Sprintf("%s %s: partitions %d, replicas %d, messages kept %s", s.Kind, s.Name, s.Partitions, s.Replicas, keptFor(s.Kept)),
		Nodes:  []examinedNode{}, Findings: []examinedFinding{},
	}
	if n := len(s.Lags); n > 0 {
		x.Lag = &examinedLatency{s.Lags[n/2].Seconds(), s.Lags[n*99/100].Seconds()}
	}
	for _, f := range s.Findings {
		severity := severityWarning
		if f.Fault {
			severity = severityFault
		}
		text, remedy, _ := strings.Cut(f.Text, "; ")
		x.find(severity, "", text, remedy)
	}
	return x, nil
}

// keptFor is how long messages are kept, in words.
func keptFor(d time.Duration) string {
	switch {
	case d < 0:
		return "for ever"
	case d == 0:
		return "unknown"
	}
	return d.String()
}
