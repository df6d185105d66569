package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// seconds is a time in whole microseconds as seconds.
func seconds(d time.Duration) Millionths { return Millionths(d.Microseconds()) }

// trialJSON is the line of a trial. Times are in seconds; numbers with decimals are
// exact to the millionth.
//
// null and 0 are different answers: a bucket has no mean error, and a log has one of 0.
type trialJSON struct {
	Limit         string      `json:"limit"`
	Naive         string      `json:"naive,omitempty"`
	Asked         int64       `json:"asked"`
	Passed        int64       `json:"passed"`
	Denied        int64       `json:"denied"`
	WronglyPassed int64       `json:"wrongly_passed"`
	WronglyDenied int64       `json:"wrongly_denied"`
	Held          int64       `json:"held"`
	MeanError     *Millionths `json:"mean_error"` // null where nothing is believed
	WorstError    *int64      `json:"worst_error"`
	MeanTrue      Millionths  `json:"mean_true"`
	FalsePositive *int64      `json:"false_positives"`
	FalseNegative *int64      `json:"false_negatives"`
	WorstPeriod   int64       `json:"worst_period"`
	Excess        int64       `json:"excess"`
	Bound         *int64      `json:"bound"` // null for naive forms
	LongestWait   Millionths  `json:"longest_wait_seconds"`
	LoadStep      Millionths  `json:"load_step_seconds"`
	PeakLoad      int64       `json:"peak_load"`
	MeanLoad      Millionths  `json:"mean_load"`
	Starved       Millionths  `json:"starved"`
	Jain          Millionths  `json:"jain"`
	StateBytes    *int64      `json:"state_bytes"` // null where it is not known
	Series        *Series     `json:"series,omitempty"`
}

// resultJSON is the last line.
type resultJSON struct {
	Workload string     `json:"workload"`
	Seed     uint64     `json:"seed"`
	Start    string     `json:"start"`
	Duration Millionths `json:"duration_seconds"`
	Step     Millionths `json:"step_seconds"`
	Clients  int        `json:"clients"`
	Shared   bool       `json:"shared"`
}

// WriteJSON writes a line for each trial, with its series if they are wanted, and a
// last one for the workload.
func (r *Result) WriteJSON(to io.Writer, series bool) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	for _, t := range r.Trials {
		if err := e.Encode(t.json(series)); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	err := e.Encode(resultJSON{
		r.Workload, r.Seed, r.Start.Time().Format(time.RFC3339Nano), seconds(r.Duration), seconds(r.Step), r.Clients, r.Shared,
	})
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (t *Trial) json(series bool) *trialJSON {
	f := &t.Figures
	j := &trialJSON{
		Limit: t.Limit.String(), Naive: t.Naive, Asked: f.Asked, Passed: f.Passed, Denied: f.Denied,
		WronglyPassed: f.WronglyPassed, WronglyDenied: f.WronglyDenied, Held: f.Held, MeanTrue: f.MeanTrue,
		WorstPeriod: f.WorstPeriod, Excess: f.Excess,
		LongestWait: seconds(f.LongestWait), LoadStep: seconds(f.LoadStep), PeakLoad: f.PeakLoad, MeanLoad: f.MeanLoad,
		Starved: f.Starved, Jain: f.Jain,
	}
	if f.Believes {
		j.MeanError, j.WorstError = &f.MeanError, &f.WorstError
		j.FalsePositive, j.FalseNegative = &f.FalsePositives, &f.FalseNegatives
	}
	if t.Naive == "" {
		j.Bound, j.StateBytes = &f.Bound, &f.StateBytes
	}
	if series {
		j.Series = &t.Series
	}
	return j
}
