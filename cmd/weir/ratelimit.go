package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
)

// ratelimitName is the name by which the program does what envoyproxy/ratelimit does, as a file and as a command.
const ratelimitName = "ratelimit"

func ratelimitCommand() *cobra.Command {
	var c daemon.Config
	var l logging
	cmd := &cobra.Command{
		Use:   ratelimitName,
		Short: "Run the daemon in the place of an envoyproxy/ratelimit",
		Long: `Run the daemon by the environment of an envoyproxy/ratelimit: with its rules, its
store, its addresses and the names of its statistics. A program file with the name
ratelimit does the same, so that /bin/ratelimit may be a link to weir.

weir import-env prints the weir serve command that this is. The log tells once what
differs from ratelimit. When a variable has a wrong value, or weir would decide otherwise by
it, stderr names all such variables, and the exit code is 2.

A flag goes before WEIR_ and its name, and that before ratelimit's variables:
with WEIR_STORE=memory: or cluster: no Redis is needed, whatever REDIS_URL says. But
WEIR_HTTP=0.0.0.0:8080 and WEIR_GRPC=0.0.0.0:8081, which the image of weir sets, are
ratelimit's defaults, and leave HOST, PORT and the like to say otherwise.`,
		Example: `  RUNTIME_ROOT=/data REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 weir ratelimit
  WEIR_STORE=memory: ratelimit`,
		Args: noArguments,
	}
	serveFlags(cmd.Flags(), &c)
	logFlags(cmd.Flags(), &l)
	storeCompletion(cmd)
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		from, bad := readEnvironment(cmd.Flags(), os.Getenv)
		plan, err := asRatelimit(cmd.Flags(), from)
		if err := errors.Join(bad, err); err != nil {
			return usagef("%w", err)
		}
		for name, value := range plan.OTel {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		return runDaemon(cmd, &c, &l, from, func(log *slog.Logger) { tellDifferences(log, plan) })
	})
	return cmd
}

// asRatelimit takes flags that were not given from ratelimit's variables. It fails with all that is wrong, each by the name of its variable.
func asRatelimit(f *pflag.FlagSet, from fromEnvironment) (*importenv.Plan, error) {
	env := variables()
	var given []string
	f.VisitAll(func(flag *pflag.Flag) {
		if name := "--" + flag.Name; flag.Changed && !(from[name] != "" && importenv.IsDefault(name, flag.Value.String())) {
			given = append(given, name)
		}
	})
	plan, err := importenv.Translate(env, given...)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range plan.Args {
		if slices.Contains(given, a.Flag) {
			continue
		}
		variable, value := strings.Join(a.Names, " and "), a.Expanded(env)
		from[a.Flag] = variable
		if value == "" {
			value = "true"
		}
		if err := setFlag(f, strings.TrimPrefix(a.Flag, "--"), value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", variable, err))
		}
	}
	for _, n := range plan.Notes {
		if n.Wrong {
			errs = append(errs, fmt.Errorf("%s: %s", n.Name, n.Text))
		}
	}
	for i, name := range plan.PassedOver() {
		if i == maxPrinted {
			errs = append(errs, errors.New("RUNTIME_ROOT: and more such files"))
			break
		}
		errs = append(errs, fmt.Errorf("RUNTIME_ROOT: ratelimit reads rules from %s, and weir does not: move it to %s, and end its name in .yaml", name, plan.Rules()))
	}
	return plan, errors.Join(errs...)
}

// variables are those of this process.
func variables() map[string]string {
	env := map[string]string{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	return env
}

// tellDifferences logs what differs from an envoyproxy/ratelimit with the same environment.
func tellDifferences(log *slog.Logger, plan *importenv.Plan) {
	log.Info("started as ratelimit", "command", plan.Line())
	for _, n := range plan.Notes {
		switch n.Fate {
		case importenv.Differs:
			log.Warn("this differs from envoyproxy/ratelimit", "variable", n.Name, "difference", n.Text)
		case importenv.Unknown:
			log.Warn("a variable is ignored", "variable", n.Name, "why", n.Text)
		case importenv.Flag, importenv.NotNeeded:
		}
	}
}
