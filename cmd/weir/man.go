package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages. It is for those who make packages, and stands in no list.
//
// Cobra can write such pages, too. It reads help as Markdown, which this help is not: tables and the placeholders of
// flags would be lost.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write a manual page of each command",
		Long:    "Write a manual page of each command to a folder, as weir.1 and weir-check.1. They say the same as --help.",
		Example: `  weir man /usr/local/share/man/man1`,
		Args:    wanted("DIR"),
		Hidden:  true,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // pages are for all
				return err
			}
			var errs []error
			eachCommand(cmd.Root(), func(c *cobra.Command) {
				file := filepath.Join(args[0], pageName(c)+".1")
				errs = append(errs, os.WriteFile(file, []byte(manPage(c)), 0o644)) //nolint:gosec // likewise
			})
			return errors.Join(errs...)
		}),
	}
}

// eachCommand calls f with c and all commands below it that people see.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			eachCommand(below, f)
		}
	}
}

// pageName is what the page of a command is called, as weir-check.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is the help of a command in the macros of man(7).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"weir %s\" \"Weir\"\n", roff(strings.ToUpper(pageName(c))), roff(version()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", roff(c.CommandPath()), roff(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", manText(cmp.Or(c.Long, c.Short)))
	var below []*cobra.Command
	for _, one := range c.Commands() {
		if one.IsAvailableCommand() {
			below = append(below, one)
		}
	}
	if len(below) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, one := range below {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(pageName(one)), roff(one.Short))
		}
	}
	c.InitDefaultHelpFlag()
	b.WriteString(".SH OPTIONS\n")
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			b.WriteString(manFlag(f))
		}
	})
	b.WriteString(".SH EXIT STATUS\n.TP\n0\nyes, or done\n.TP\n1\nno: errors that lint finds, a denial in check\n.TP\n2\nusage, or bad input\n.TP\n3\ncould not\n")
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", manText(c.Example))
	}
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", roff(pageName(c.Parent())))
	}
	return b.String()
}

func manFlag(f *pflag.Flag) string {
	var b strings.Builder
	b.WriteString(".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(&b, "\\fB\\-%s\\fR, ", f.Shorthand)
	}
	value, text := pflag.UnquoteUsage(f)
	fmt.Fprintf(&b, "\\fB\\-\\-%s\\fR", roff(f.Name))
	if value != "" {
		fmt.Fprintf(&b, " \\fI%s\\fR", roff(value))
	}
	if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
		text += " (default " + f.DefValue + ")"
	}
	fmt.Fprintf(&b, "\n%s\n", roff(text))
	return b.String()
}

// manText is text in paragraphs. Lines that are indented, as tables and examples, stay as they are.
func manText(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		asIs := strings.HasPrefix(paragraph, "  ")
		if asIs {
			b.WriteString(".nf\n")
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			b.WriteString(roff(line) + "\n")
		}
		if asIs {
			b.WriteString(".fi\n")
		}
	}
	return b.String()
}

// roff is one line of text that means nothing else to troff.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
