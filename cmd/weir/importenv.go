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
	var service string
	cmd := &cobra.Command{
		Use:   "import-env [FILE]",
		Short: "Tell how weir serve does what an envoyproxy/ratelimit does",
		Long: `Read the environment of an envoyproxy/ratelimit, from a FILE of NAME=VALUE lines or
a compose file (- is stdin), or from this process, and print the weir serve command
that does the same. ${X} and ${X:-Y} in a file stand for the variables of this
process, as with docker compose; of a compose file it is the service that has
variables of ratelimit, or the one of --service. For each variable that is set, stderr tells what became of it: a flag,
not needed and why, or what differs and what to do. Passwords are not printed:
the command takes them from the same variables.`,
		Example: `  weir import-env ratelimit.env
  weir import-env docker-compose.yml
  kubectl set env deploy/ratelimit --list | weir import-env -`,
		Args: atMost("FILE"),
	}
	cmd.Flags().StringVar(&service, "service", "", "`NAME` of the service in a compose file (default: the one that has variables of ratelimit)")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if service != "" && len(args) == 0 {
			return usagef("--service is of a compose file; write weir import-env --service %s FILE", service)
		}
		env, err := environment(args, cmd.InOrStdin(), service)
		if err != nil {
			return err
		}
		plan, err := importenv.Translate(env.Variables)
		if err != nil {
			return err
		}
		if err := printNotes(cmd.ErrOrStderr(), env, plan); err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), plan.String())
		return err
	})
	return cmd
}

// environment is that of the file in args, or of this process.
func environment(args []string, stdin io.Reader, service string) (*importenv.Environment, error) {
	if len(args) == 0 {
		return &importenv.Environment{Variables: variables()}, nil
	}
	if args[0] == "-" {
		return importenv.Read("stdin", stdin, os.LookupEnv, service)
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written, so there is nothing to lose
	return importenv.Read(args[0], f, os.LookupEnv, service)
}

// maxPrinted is how many files of a kind are named.
const maxPrinted = 10

func printNotes(to io.Writer, env *importenv.Environment, plan *importenv.Plan) error {
	var b strings.Builder
	for _, name := range env.Unset {
		fmt.Fprintf(&b, "%s: unknown: it has no value here, so ${%s} is empty; set it as it is set for ratelimit\n", name, name)
	}
	if !importenv.Any(env.Variables) {
		fmt.Fprintln(&b, "weir: no variable of envoyproxy/ratelimit is set; this is what it does by its defaults")
	}
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
