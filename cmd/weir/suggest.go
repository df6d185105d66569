package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/suggest"
)

func suggestCommand() *cobra.Command {
	var o suggest.Options
	var by, per, format string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "suggest --log FILE",
		Short: "Suggest limits from the clients of an access log",
		Long: `Suggest limits from the clients of an access log: how much they ask for at
most, limits a quarter above that for the median client, p90, p99 and the busiest,
and how many clients and requests each would have denied.

It prints a rule file, with the figures as its comments and the limit of
p99 in shadow. The log is read three times, so that it can't be stdin; it may be
compressed by gzip or zstd. docs/replay.md tells more.`,
		Example: `  weir suggest --log access.log
  weir suggest --log access.log --by path,remote_address --per h >suggested.yaml`,
		Args: noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&o.Log, "log", "", "access log `FILE`")
	f.StringVar(&by, "by", "remote_address", "`FIELDS` that make a client, joined by commas: "+theValues)
	choices(cmd, "by", accesslog.FieldNames()...)
	f.StringVar(&per, "per", "min", "suggest limits per `UNIT`: "+theValues)
	choice(cmd, "per", string(suggest.Second), string(suggest.Minute), string(suggest.Hour))
	f.StringVar(&format, "format", "auto", "`FORMAT` of the log: "+theValues)
	choice(cmd, "format", accesslog.Formats()...)
	f.BoolVar(&asJSON, "json", false, "print JSON, a line for each limit, one for the rule file and one for the log")
	needFlags(cmd, "log")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) (err error) {
		if o.Format, err = parseFormat(format); err != nil {
			return err
		}
		if o.By, err = suggest.ParseBy(by); err != nil {
			return usagef("--by: %w", err)
		}
		if o.Per, err = suggest.ParseWindow(per); err != nil {
			return usagef("--per: %w", err)
		}
		if o.Log == "-" {
			return usagef("--log -: the log is read three times, so that it can't be stdin; write it to a file")
		}
		bar, done := progress(cmd.ErrOrStderr(), "suggest")
		defer done()
		o.Progress = bar
		report, err := suggest.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		done()
		if asJSON {
			return report.WriteJSON(cmd.OutOrStdout())
		}
		return report.WriteText(cmd.OutOrStdout())
	})
	return cmd
}
