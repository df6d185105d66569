package replay

import (
	"context"
	"fmt"
	"io"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// Options say what to replay. Rules and Log are required.
type Options struct {
	Rules   string           // the file, or folder, of the rules
	Against string           // the same of other rules to compare them with; empty for none
	Log     string           // the file of the log, which may be compressed by gzip or zstd; - is Stdin
	Stdin   io.Reader        // for the log -
	Format  accesslog.Format // of the log
	Domain  string           // whose rules are asked; empty for all
	Cost    string           // the field that says what a line is worth; empty: each is worth 1
	JSON    bool             // report as JSON, a line for each rule, instead of as tables
	// Progress is told how many bytes of the log are done; nil for nobody.
	Progress func(done, total int64)
}

// Run replays a log and writes the report to out. The error is an *accesslog.InputError
// when the input is at fault. When no line at all could be read it is one as
// well, after the report.
func Run(ctx context.Context, o Options, out io.Writer) error {
	q, err := o.question()
	if err != nil {
		return err
	}
	log, name := o.Stdin, "stdin"
	if o.Log != "-" {
		file, err := accesslog.OpenFile(o.Log, o.Progress)
		if err != nil {
			return err
		}
		defer file.Close()
		log, name = file, o.Log
	}
	p, err := newPlayer(q)
	if err != nil {
		return err
	}
	report, err := p.play(ctx, accesslog.NewReader(log, o.Format, o.Cost))
	if err != nil {
		return fmt.Errorf("replay %s: %w", name, err)
	}
	if o.JSON {
		err = report.WriteJSON(out)
	} else {
		err = report.WriteText(out)
	}
	if err != nil || report.Log.Lines > 0 {
		return err
	}
	switch l := &report.Log; {
	case l.Costless > 0:
		return &accesslog.InputError{Err: fmt.Errorf("no line of %s has a whole number from 0 to %d in its field %q", name, weir.MaxCount, o.Cost)}
	case l.Skipped > 0:
		return &accesslog.InputError{Err: fmt.Errorf("no line of %s could be read in the format %v", name, o.Format)}
	}
	return nil
}

// question reads the rules.
func (o *Options) question() (Question, error) {
	q := Question{Domain: o.Domain, Costs: o.Cost != ""}
	if clf := o.Format == accesslog.Common || o.Format == accesslog.Combined; clf && q.Costs && o.Cost != accesslog.CostBytes {
		return q, &accesslog.InputError{Err: fmt.Errorf("a line in the format %v has no field %q: its only cost is %s", o.Format, o.Cost, accesslog.CostBytes)}
	}
	var err error
	if q.Rules, err = rules.Load(o.Rules); err != nil {
		return q, &accesslog.InputError{Err: err}
	}
	if o.Against != "" {
		if q.Against, err = rules.Load(o.Against); err != nil {
			return q, &accesslog.InputError{Err: err}
		}
	}
	return q, nil
}
