package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/report"
	"github.com/weir-limit/weir/cmd/weir/internal/table"
	"github.com/weir-limit/weir/sim"
)

// wellKnown are the limits of the comparison that everybody knows: what a fixed
// window, two windows and five of 15 s make of the same random traffic.
var wellKnown = []string{"100/min fixed-window", "100/min sliding-window", "100/min sliding-window 4"}

// maxSized is how many requests the picture of memory runs beyond what was asked for, on each
// limit that it shows.
const maxSized = 1_000_000

// simulation is what the flags of weir simulate say.
type simulation struct {
	limits   []string
	all      bool
	naive    bool
	workload string
	log      string // in place of a workload
	by       string
	format   string
	options  sim.Options
	traffic  *sim.Workload // of a run
	json     bool
	series   bool
	showing  showing
}

func simulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Tell what limits would do to traffic, and how wrong each is",
		Long: `Run made-up traffic, or that of a log, on limits in virtual time, and tell side by
side what passes, how wrong each limit is against an exact log, and what it costs.

Without arguments it is the well-known comparison: a fixed window, two
windows and five of 15 s for the same random traffic of 100 a minute. The same
seed gives the same answer. docs/simulate.md defines all figures.`,
		Example: `  weir simulate
  weir simulate --limit 100/min --limit "100/min strict burst 20" --workload "greedy clients=50"
  weir simulate --limit 1000/h --all --workload daily --duration 2day --json
  weir simulate --log access.log --limit 60/min --limit "60/min fixed-window"
  weir simulate --open
  weir simulate adversary --limit "100/min sliding-window"`,
		Args: noArguments,
	}
	f := cmd.Flags()
	limitFlags(f, &s)
	f.BoolVar(&s.naive, "naive", false, "also run the naive forms of the literature that fit the first limit")
	f.StringVar(&s.workload, "workload", "poisson", "`TRAFFIC` to run: a kind, and words to change it; weir simulate workloads lists all")
	f.StringVar(&s.log, "log", "", "access log `FILE` to run instead of made-up traffic; - is stdin")
	f.StringVar(&s.by, "by", "remote_address", "with --log: `FIELD` that tells clients apart, or several with commas: "+theValues)
	choices(cmd, "by", accesslog.FieldNames()...)
	f.StringVar(&s.format, "format", "auto", "with --log: `FORMAT` of the log: "+theValues)
	choice(cmd, "format", accesslog.Formats()...)
	f.Uint64Var(&s.options.Seed, "seed", 1, "`N` that all chance comes from")
	f.Var((*timeFlag)(&s.options.Duration), "duration", "how long requests come, such as 10min (default: 10 periods of the first limit)")
	f.Var((*timeFlag)(&s.options.Step), "step", "time between two points of a series (default: 200…500 of them)")
	f.BoolVar(&s.options.Shared, "shared", false, "all clients share one count, instead of one for each")
	f.BoolVar(&s.json, "json", false, "print JSON, a line for each limit and one for the workload")
	f.BoolVar(&s.series, "series", false, "with --json: also what happened in each step")
	s.showing.flags(f)
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		if err := fitting(cmd.Flags()); err != nil {
			return err
		}
		bar, done := progress(cmd.ErrOrStderr(), "simulate", progressbar.OptionShowBytes(false))
		defer done()
		result, err := s.run(cmd.Context(), cmd.InOrStdin(), bar)
		done()
		if err != nil {
			return err
		}
		if s.json {
			err = result.WriteJSON(cmd.OutOrStdout(), s.series)
		} else {
			err = printResult(cmd.OutOrStdout(), result)
		}
		if err != nil {
			return err
		}
		return s.showing.show(cmd, result, s.sizes)
	})
	cmd.AddCommand(adversaryCommand(), clusterCommand(), gridCommand(), workloadsCommand())
	return cmd
}

// fitting refuses flags that the others make meaningless.
func fitting(f *pflag.FlagSet) error {
	switch {
	case f.Changed("log") && f.Changed("workload"):
		return usagef("--log and --workload: take one of them, the requests of a log or made-up traffic")
	case f.Changed("log"):
		return nil
	case f.Changed("by"):
		return usagef("--by is for --log; made-up traffic has clients=N in --workload")
	case f.Changed("format"):
		return usagef("--format is for --log; add --log FILE")
	}
	return nil
}

func limitFlags(f *pflag.FlagSet, s *simulation) {
	f.StringArrayVar(&s.limits, "limit", nil, "`LIMIT` to run, such as \"100/min burst 10\"; may stand several times (default: those of the comparison)")
	f.BoolVar(&s.all, "all", false, "run the first limit's count and period by every algorithm instead")
}

// timeFlag is a flag for a time in the units of limits, or as Go has it.
type timeFlag time.Duration

func (t *timeFlag) String() string {
	if *t == 0 {
		return "" // not given
	}
	return sim.TimeText(time.Duration(*t))
}

func (t *timeFlag) Set(text string) error {
	d, err := sim.ParseTime(text)
	*t = timeFlag(d)
	return err
}

func (t *timeFlag) Type() string { return "TIME" }

// timeOrNone is a timeFlag that may say 0.
type timeOrNone time.Duration

func (t *timeOrNone) String() string {
	if *t == 0 {
		return "0"
	}
	return sim.TimeText(time.Duration(*t))
}

func (t *timeOrNone) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		*t = 0
		return nil
	}
	return (*timeFlag)(t).Set(text)
}

func (t *timeOrNone) Type() string { return "TIME" }

// parsed are the limits that the flags name, in their order.
func (s *simulation) parsed() ([]*weir.Limit, error) {
	var limits []*weir.Limit
	texts := s.limits
	if len(texts) == 0 {
		texts = wellKnown
	}
	for _, text := range texts {
		l, err := weir.ParseLimit(text)
		if err != nil {
			return nil, usagef("--limit: %w", err)
		}
		limits = append(limits, l)
	}
	if s.all {
		return sim.Algorithms(limits[0])
	}
	return limits, nil
}

func (s *simulation) contenders() ([]sim.Contender, error) {
	limits, err := s.parsed()
	if err != nil {
		return nil, err
	}
	var all []sim.Contender
	for _, l := range limits {
		c, err := sim.Of(l)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if s.naive {
		for _, name := range sim.NaiveNames() {
			if c, err := sim.Naive(name, limits[0]); err == nil {
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func (s *simulation) run(ctx context.Context, stdin io.Reader, bar func(done, total int64)) (*sim.Result, error) {
	if s.series && !s.json {
		return nil, usagef("--series is for --json; add --json")
	}
	contenders, err := s.contenders()
	if err != nil {
		return nil, err
	}
	if s.traffic, err = s.read(contenders[0].Limit, stdin); err != nil {
		return nil, err
	}
	if bar != nil {
		s.options.Progress = func(done, total time.Duration) { bar(int64(done/time.Second), int64(total/time.Second)) }
	}
	return sim.Run(ctx, s.traffic, contenders, s.options)
}

// sizes runs the same traffic on limits of the same count that take ever more bytes. There is
// nothing of it where limits differ in count or period, and where it would take long.
func (s *simulation) sizes(ctx context.Context, r *sim.Result) ([]*sim.Trial, error) {
	if !report.Alike(r) || r.Trials[0].Limit.Spec().Count == 0 || r.Trials[0].Figures.Asked > maxSized {
		return nil, nil
	}
	var contenders []sim.Contender
	for _, l := range sim.Sizes(r.Trials[0].Limit) {
		c, err := sim.Of(l)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders, c)
	}
	o := s.options
	o.Progress = nil
	sized, err := sim.Run(ctx, s.traffic, contenders, o)
	if err != nil {
		return nil, err
	}
	return sized.Trials, nil
}

// read is the workload that suits l, or that of a log.
func (s *simulation) read(l *weir.Limit, stdin io.Reader) (*sim.Workload, error) {
	if s.log == "" {
		return sim.ParseWorkload(s.workload, l)
	}
	return recorded(s.log, s.by, s.format, stdin)
}

// printResult writes the figures for people.
func printResult(to io.Writer, r *sim.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d, %s\n\n", r.Workload, r.Seed, r.Duration)
	passed := table.Table{Rows: [][]string{{
		"LIMIT", "ASKED", "PASSED", "DENIED", "WRONGLY PASSED", "WRONGLY DENIED", "MEAN ERROR", "WORST ERROR",
	}}, From: 1, To: 8}
	cost := table.Table{Rows: [][]string{{
		"LIMIT", "WORST PERIOD", "BOUND", "LONGEST WAIT", "PEAK LOAD", "MEAN LOAD", "STARVED", "FAIRNESS", "STATE BYTES",
	}}, From: 1, To: 9}
	for _, t := range r.Trials {
		passed.Rows = append(passed.Rows, passedCells(t))
		cost.Rows = append(cost.Rows, costCells(t))
	}
	passed.Write(&b)
	b.WriteString("\n")
	cost.Write(&b)
	b.WriteString("\nwrongly: an exact log of what the limit let go says otherwise. error: of its count of the last period, in events.\n")
	for _, t := range r.Trials {
		if t.Figures.Held > 0 {
			fmt.Fprintf(&b, "%s had %d requests wait (%s): a log lets each go when it comes, or denies it.\n", t.Name, t.Figures.Held, percent(t.Figures.Held, t.Figures.Asked))
		}
		if t.Naive != "" {
			fmt.Fprintf(&b, "%s is naive: it %s.\n", t.Naive, t.Says)
		}
	}
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

func passedCells(t *sim.Trial) []string {
	f := &t.Figures
	of := func(n int64) string {
		if n == 0 || f.Asked == 0 {
			return "0"
		}
		return fmt.Sprintf("%d (%s)", n, percent(n, f.Asked))
	}
	cells := []string{t.Name, fmt.Sprint(f.Asked), of(f.Passed), of(f.Denied), of(f.WronglyPassed), of(f.WronglyDenied)}
	if f.Believes {
		cells = append(cells, f.MeanError.Fixed(2), fmt.Sprint(f.WorstError))
	} else {
		cells = append(cells, "-", "-")
	}
	return cells
}

func costCells(t *sim.Trial) []string {
	f := &t.Figures
	bound, bytes := "-", "-"
	if t.Naive == "" {
		bound, bytes = fmt.Sprint(f.Bound), fmt.Sprint(f.StateBytes)
	}
	return []string{
		t.Name, fmt.Sprint(f.WorstPeriod), bound, f.LongestWait.Round(time.Millisecond).String(), fmt.Sprintf("%d in %s", f.PeakLoad, f.LoadStep), f.MeanLoad.Fixed(2),
		percentOf(f.Starved), f.Jain.Fixed(3), bytes,
	}
}

// percent is a/b, for a ≤ b, and percentOf is m, in percent.
func percent(a, b int64) string { return percentOf(sim.Millionths(a * 1_000_000 / b)) }

func percentOf(m sim.Millionths) string {
	if m > 0 && m < 500 {
		return "< 0.1 %"
	}
	return (m * 100).Fixed(1) + " %"
}
