package replay

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weir-limit/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// Options say what to replay. Rules and Log are required.
type Options struct {
	Rules  string           // the file, or folder, of the rules
	Log    string           // the file of the log, which may be compressed by gzip
	Format accesslog.Format // of the log
	Domain string           // whose rules are asked; empty for all
	JSON   bool             // report as JSON, a line for each rule, instead of as tables
}

// InputError is a fault of the rules, the log or the options, for whoever wrote
// them to mend.
type InputError struct {
	Err error
}

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap is the fault itself.
func (e *InputError) Unwrap() error { return e.Err }

// Run replays a log and writes the report to out. While it reads the log it
// tells progress, which may be nil, how many of its bytes are done. The error
// is an *InputError when the input is at fault. When no line at all could be
// read it is one as well, after the report.
func Run(ctx context.Context, o Options, out io.Writer, progress func(done, total int64)) error {
	set, err := rules.Load(o.Rules)
	if err != nil {
		return &InputError{err}
	}
	file, err := os.Open(o.Log)
	if err != nil {
		return &InputError{err}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &InputError{fmt.Errorf("%s is a folder, not a log", o.Log)}
	}
	from := &meter{from: file, total: info.Size(), progress: progress}
	report, err := Log(ctx, set, accesslog.NewReader(from, o.Format), o.Domain)
	if _, input := errors.AsType[*InputError](err); input {
		return err
	}
	if err != nil {
		err = fmt.Errorf("replay %s: %w", o.Log, err)
		if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &InputError{fmt.Errorf("%w; the file is not whole: compress it again", err)}
		}
		return err
	}
	if o.JSON {
		err = report.WriteJSON(out)
	} else {
		err = report.WriteText(out)
	}
	if err == nil && report.Log.Lines == 0 && report.Log.Skipped > 0 {
		err = &InputError{fmt.Errorf("no line of %s could be read in the format %v", o.Log, o.Format)}
	}
	return err
}

// meter tells how much has been read.
type meter struct {
	from        io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.done += int64(n)
	if m.progress != nil && (err == nil || errors.Is(err, io.EOF)) {
		m.progress(m.done, max(m.done, m.total))
	}
	return n, err
}
