package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
)

func importEnvCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import-env [FILE]",
		Short: "Tell how weir serve does what an envoyproxy/ratelimit does",
		Long: `Read the environment of an envoyproxy/ratelimit, from a FILE of NAME=VALUE lines
(- is stdin) or from this process, and print the weir serve command that does
the same. For each variable that is set, stderr tells what became of it: a flag,
not needed and why, or what differs and what to do. Passwords are not printed:
the command takes them from the same variables.`,
		Example: `  weir import-env ratelimit.env
  kubectl set env deploy/ratelimit --list | weir import-env -`,
		Args: cobra.MaximumNArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			env, err := environment(args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			plan, err := importenv.Translate(env)
			if err != nil {
				return err
			}
			if err := printNotes(cmd.ErrOrStderr(), plan); err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), plan.String())
			return err
		}),
	}
}

// environment is that of the file in args, or of this process.
func environment(args []string, stdin io.Reader) (map[string]string, error) {
	if len(args) == 0 {
		env := map[string]string{}
		for _, variable := range os.Environ() {
			name, value, _ := strings.Cut(variable, "=")
			env[name] = value
		}
		return env, nil
	}
	if args[0] == "-" {
		return importenv.Read("stdin", stdin)
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written, so there is nothing to lose
	return importenv.Read(args[0], f)
}

// maxPrinted is how many files of a kind are named.
const maxPrinted = 10

func printNotes(to io.Writer, plan *importenv.Plan) error {
	var b strings.Builder
	for _, n := range plan.Notes {
		fmt.Fprintln(&b, n)
	}
	passed := plan.PassedOver()
	for i, name := range passed {
		if i == maxPrinted {
			fmt.Fprintf(&b, "--rules: differs: and %d more files\n", len(passed)-i)
			break
		}
		fmt.Fprintf(&b, "--rules: differs: weir does not read %s: move it to %s, and end its name in .yaml\n", name, plan.Rules())
	}
	_, err := io.WriteString(to, b.String())
	return err
}
