package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/replay"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog/outlet"
)

func replayCommand() *cobra.Command {
	var o replay.Options
	var format string
	cmd := &cobra.Command{
		Use:   "replay --rules FILE --log FILE",
		Short: "Tell what rules would have done to the requests of an access log",
		Long: `Tell what rules would have done to the requests of an access log, on the log's
own time. A line offers remote_address, method, path, host, user, status,
user_agent and referer; every rule whose keys a line has is asked. The log may
be compressed by gzip or zstd.

The log may also be a daemon's usage log (weir serve --usage-log): file:DIR,
kafka://HOST:PORT/TOPIC or nats://HOST:PORT/SUBJECT. Its records name rules, and
the rules of the same names are asked about their requests again.

With --against it also tells which clients would have been treated differently by other
rules, when, and how often. docs/replay.md tells more.`,
		Example: `  weir replay --rules rules.yaml --log access.log
  weir replay --rules rules.yaml --against new.yaml --log access.log.gz
  cat access.log.*.gz | weir replay --rules rules.yaml --log - --json`,
		Args: noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&o.Rules, "rules", "", "`FILE` of rules, or a folder of them")
	f.StringVar(&o.Against, "against", "", "`FILE` of other rules, or a folder: show how their decisions differ")
	f.StringVar(&o.Log, "log", "", "access log `FILE`, - for stdin, or the URL of a usage log")
	f.StringVar(&format, "format", "auto", "`FORMAT` of the log: "+theValues)
	choice(cmd, "format", accesslog.Formats()...)
	f.StringVar(&o.Domain, "domain", "", "ask only the rules of this domain `D`")
	f.StringVar(&o.Cost, "cost", "", "`FIELD` that says how many events a line is worth: bytes, or a member of JSON such as tokens (default: each is 1)")
	f.BoolVar(&o.JSON, "json", false, "print JSON, a line for each rule and one for the log")
	needFlags(cmd, "rules", "log")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) (err error) {
		if o.Format, err = parseFormat(format); err != nil {
			return err
		}
		if outlet.IsLog(o.Log) {
			return replayUsage(cmd, o)
		}
		bar, done := progress(cmd.ErrOrStderr(), "replay")
		defer done()
		o.Stdin, o.Progress = cmd.InOrStdin(), bar
		return replay.Run(cmd.Context(), o, cmd.OutOrStdout())
	})
	return cmd
}

// replayUsage replays a usage log.
func replayUsage(cmd *cobra.Command, o replay.Options) error {
	for _, name := range []string{"against", "format", "cost"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is for access logs: a usage log says itself what its requests cost, and not what they were", name)
		}
	}
	if err := outlet.Check(o.Log); err != nil {
		return usagef("--log: %w", err)
	}
	read := func(ctx context.Context, f func([]byte) error) error {
		if err := outlet.Read(ctx, o.Log, f); err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		return nil
	}
	return replay.RunUsage(cmd.Context(), o, read, cmd.OutOrStdout())
}

func parseFormat(name string) (accesslog.Format, error) {
	f, err := accesslog.ParseFormat(name)
	if err != nil {
		return 0, &failure{exitUsage, fmt.Errorf("--format: %w", err)}
	}
	return f, nil
}

// progress draws how far a file is read, or what else the options say, on a
// terminal only. bar may be called from another goroutine than wipe.
func progress(to io.Writer, what string, o ...progressbar.Option) (bar func(done, total int64), wipe func()) {
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	drawn := progressbar.NewOptions64(-1, append([]progressbar.Option{
		progressbar.OptionSetWriter(to), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
	}, o...)...)
	// A picture that can't be drawn is no reason to stop.
	var mu sync.Mutex
	shown, over := false, false
	draw := func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
		case done < total:
			shown = true
			drawn.ChangeMax64(total)
			_ = drawn.Set64(done)
		case shown: // the report comes next, perhaps on the same terminal
			shown = false
			_ = drawn.Clear()
		}
	}
	wipe = func() {
		draw(1, 1)
		mu.Lock()
		over = true
		mu.Unlock()
	}
	return draw, wipe
}
