package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
)

// theValues is where the usage of a flag lists what it takes.
const theValues = "%s"

// choice has a flag list its values in its help, and shells complete them: both from the same list.
func choice(cmd *cobra.Command, name string, values ...string) {
	list(cmd, name, values)
	completeBy(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// choices is choice for a flag that takes several values, with commas between them.
func choices(cmd *cobra.Command, name string, values ...string) {
	list(cmd, name, values)
	completeBy(cmd, name, func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		var all []cobra.Completion
		for _, v := range values {
			if !slices.Contains(strings.Split(before, ","), v) {
				all = append(all, before+v)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// storeCompletion completes the schemes of a flag that takes the URL of a store.
func storeCompletion(cmd *cobra.Command) {
	completeBy(cmd, "store", cobra.FixedCompletions(daemon.StoreSchemes(), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// list puts values into the usage of a flag.
func list(cmd *cobra.Command, name string, values []string) {
	flag := cmd.Flags().Lookup(name)
	last := len(values) - 1
	flag.Usage = strings.Replace(flag.Usage, theValues, strings.Join(values[:last], ", ")+" or "+values[last], 1)
}

func completeBy(cmd *cobra.Command, name string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
		panic("weir: " + err.Error()) // no such flag
	}
}

// completeTheRest has shells offer files only where a flag or an argument takes one, by what help calls its value. It comes
// when all commands are there.
func completeTheRest(root *cobra.Command) {
	nothing := cobra.NoFileCompletions
	eachCommand(root, func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := c.GetFlagCompletionFunc(f.Name); ok || f.Value.Type() == "bool" {
				return
			}
			switch value, _ := pflag.UnquoteUsage(f); value {
			case "FILE", "PATH": // the shell's own
			case "DIR":
				completeBy(c, f.Name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
			default:
				completeBy(c, f.Name, nothing)
			}
		})
		takesFile := strings.Contains(c.Use, "PATH") || strings.Contains(c.Use, "FILE]") || strings.Contains(c.Use, " DIR")
		if c.ValidArgsFunction == nil && !takesFile {
			c.ValidArgsFunction = nothing
		}
	})
}
