package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/rules"
)

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitYes
	}
	code, text := exitUsage, ""
	if f, ok := errors.AsType[*failure](err); ok {
		code = f.code
		if f.err != nil {
			text = explain(f.err) + "\n"
		}
	} else { // what is not ours is cobra's, of flags and commands
		text = fmt.Sprintf("weir: %s\nsee %s --help\n", usage(command, err), command.CommandPath())
	}
	_, _ = io.WriteString(stderr, terminal.EscapeLines(text)) // where else to say that it failed?
	return code
}

// explain is what to print of an error. An error in rule files has a form that editors understand,
// and the warnings about them stand with it.
func explain(err error) string {
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		var lines []string
		for _, f := range bad.Findings {
			lines = append(lines, terminal.Escape(f.String()))
		}
		return strings.Join(lines, "\n")
	}
	return "weir: " + strings.ReplaceAll(err.Error(), "\n", "\nweir: ")
}

// rootCommand is the index of all commands. Each is in the file of its name.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Limit how much each client may send, and say when to come back",
		Long: `Weir limits how much each client may send, and says when to come back.

Exit codes: 0 yes or done, 1 no (lint errors, a denial in check), 2 usage or
bad input, 3 could not.`,
		Example: `  weir serve --rules rules/
  weir check demo client_id=alice
  weir lint rules/`,
		Version:            version(),
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // usage has them
	}
	root.SetVersionTemplate(versionLine())
	root.SetHelpCommand(helpCommand())
	alignedUsage(root)
	root.AddCommand(
		serveCommand(), ratelimitCommand(), doctorCommand(), nodesCommand(), // run a daemon, its store, its cluster
		checkCommand(), explainCommand(), topCommand(), unblockCommand(), // ask it
		lintCommand(), admissionCommand(), schemaCommand(), rulesCommand(), exceptionCommand(), tokenCommand(), auditCommand(), webhookCommand(), importEnvCommand(), // rules
		replayCommand(), suggestCommand(), simulateCommand(), sizeCommand(), // work limits out
		versionCommand(), manCommand(),
	)
	completeTheRest(root)
	return root
}
