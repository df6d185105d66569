package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-limit/weir/internal/accesslog"
	"github.com/weir-limit/weir/internal/replay"
	"github.com/weir-limit/weir/rules"
)

func replayCommand() *cobra.Command {
	var o replay.Options
	var format string
	cmd := &cobra.Command{
		Use:   "replay --rules FILE --log FILE",
		Short: "Tell what rules would have done to the requests of an access log",
		Long: `Tell what rules would have done to the requests of an access log, on the log's
own time. A line offers remote_address, method, path, host, user, status,
user_agent and referer; every rule whose keys a line has is asked.`,
		Example: `  weir replay --rules rules.yaml --log access.log
  zcat access.log.*.gz | weir replay --rules rules.yaml --log - --json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Rules, "rules", "", "`FILE` of rules, or a folder of them")
	f.StringVar(&o.Log, "log", "", "access log `FILE`; - is stdin")
	f.StringVar(&format, "format", "auto", "`FORMAT` of the log: auto, common, combined or json")
	f.StringVar(&o.Domain, "domain", "", "ask only the rules of this domain `D`")
	f.BoolVar(&o.JSON, "json", false, "print JSON, a line for each rule and one for the log")
	for _, name := range []string{"rules", "log"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("weir: " + err.Error()) // no such flag
		}
	}
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) (err error) {
		if o.Format, err = accesslog.ParseFormat(format); err != nil {
			return &failure{exitUsage, fmt.Errorf("--format: %w", err)}
		}
		if o.Log == "-" {
			return replayStdin(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
		}
		bar, done := progress(cmd.ErrOrStderr())
		defer done()
		return replay.Run(cmd.Context(), o, cmd.OutOrStdout(), bar)
	})
	return cmd
}

// replayStdin is replay.Run for a log that has no name and no size.
func replayStdin(ctx context.Context, o replay.Options, log io.Reader, out io.Writer) error {
	set, err := rules.Load(o.Rules)
	if err != nil {
		return err
	}
	report, err := replay.Log(ctx, set, accesslog.NewReader(log, o.Format), o.Domain)
	if err != nil {
		return fmt.Errorf("replay stdin: %w", err)
	}
	if o.JSON {
		err = report.WriteJSON(out)
	} else {
		err = report.WriteText(out)
	}
	if err == nil && report.Log.Lines == 0 && report.Log.Skipped > 0 {
		err = usagef("no line of stdin could be read in the format %v", o.Format)
	}
	return err
}

// progress draws how far a file is read, on a terminal only.
func progress(to io.Writer) (bar func(done, total int64), wipe func()) {
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	drawn := progressbar.NewOptions64(
		-1, progressbar.OptionSetWriter(to), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("replay"), progressbar.OptionClearOnFinish(),
	)
	// A picture that can't be drawn is no reason to stop.
	shown := false
	wipe = func() {
		if shown {
			shown = false
			_ = drawn.Clear()
		}
	}
	bar = func(done, total int64) {
		if done >= total { // the report comes next, perhaps on the same terminal
			wipe()
			return
		}
		shown = true
		drawn.ChangeMax64(total)
		_ = drawn.Set64(done)
	}
	return bar, wipe
}
