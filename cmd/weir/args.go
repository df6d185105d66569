package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/internal/editdistance"
)

// noArguments is for commands that are told everything by flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags and no arguments; leave out %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// onlyCommands is for commands that do nothing but have others below them.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return nil
}

// more ends the names of wanted where the last may stand several times.
const more = "…"

// wanted is for commands that need an argument for each of the names.
func wanted(names ...string) cobra.PositionalArgs {
	usage := strings.Join(names, " ")
	many := names[len(names)-1] == more
	if many {
		names = names[:len(names)-1]
	}
	return func(cmd *cobra.Command, args []string) error {
		switch missing := names[min(len(args), len(names)):]; {
		case len(missing) > 0:
			is := "is"
			if len(missing) > 1 {
				is = "are"
			}
			return fmt.Errorf("%s %s missing; write %s %s", strings.Join(missing, " and "), is, cmd.CommandPath(), usage)
		case len(args) > len(names) && !many:
			return fmt.Errorf("%s takes %s and nothing more; leave out %q", cmd.CommandPath(), usage, args[len(names)])
		}
		return nil
	}
}

// atMost is for commands that take one argument of this name, or none.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes one %s at most; leave out %q", cmd.CommandPath(), name, args[1])
		}
		return nil
	}
}

// unknownCommandError says what may have been meant by a command that is not there.
type unknownCommandError string

func (e unknownCommandError) Error() string { return string(e) }

func unknownCommand(parent *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, parent.CommandPath())
	var names, longer []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
		if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), name) {
			longer = append(longer, c.Name())
		}
	}
	if near, ok := editdistance.Nearest(name, names); ok && len(longer) == 0 {
		longer = []string{near}
	}
	if len(longer) > 0 && name != "" {
		text += "; did you mean " + strings.Join(longer, " or ") + "?"
	}
	return unknownCommandError(text)
}

// helpCommand is cobra's, but for a topic that is not there: that is bad usage.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			for _, name := range args {
				i := slices.IndexFunc(about.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
				if i < 0 {
					return unknownCommand(about, name)
				}
				about = about.Commands()[i]
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, c := range about.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// alignedUsage has root and all commands below align their flags by columns; pflag aligns them by bytes.
func alignedUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".LocalFlags.FlagUsages", "flagUsages .LocalFlags"))
}

var flagColumn = regexp.MustCompile(`^ +(?:-\w, )?--\S+ \S+`)

// flagUsages is what help says of flags, with their texts in one column.
func flagUsages(f *pflag.FlagSet) string {
	var b strings.Builder
	for line := range strings.Lines(f.FlagUsages()) {
		column := flagColumn.FindString(line)
		b.WriteString(column + strings.Repeat(" ", len(column)-utf8.RuneCountInString(column)) + line[len(column):])
	}
	return b.String()
}
