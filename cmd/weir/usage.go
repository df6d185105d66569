package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/internal/editdistance"
)

// usage is what to print of an error about flags and commands that cobra has found in the
// arguments of cmd. It says what to write where cobra says only what is wrong.
func usage(cmd *cobra.Command, err error) string {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Sprintf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), valueOf(bad))
	}
	if bad, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Sprintf("--%s has no value; write %s", bad.GetFlag().Name, withValue(bad.GetFlag()))
	}
	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, bad)
	}
	if bad, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return fmt.Sprintf("%q is no flag; write --NAME VALUE or --NAME=VALUE", bad.GetSpecifiedFlag())
	}
	text := err.Error()
	if _, ok := errors.AsType[unknownCommandError](err); ok {
		return text
	}
	if m := missing.FindStringSubmatch(text); m != nil {
		return missingFlags(cmd, m[1])
	}
	if m := strayed.FindStringSubmatch(text); m != nil {
		if name, err := strconv.Unquote(m[1]); err == nil {
			return unknownCommand(cmd, name).Error()
		}
	}
	return flagGroups(text)
}

// valueOf is what the flag of a value that it does not take wants instead.
func valueOf(bad *pflag.InvalidValueError) string {
	if errors.Is(bad, strconv.ErrRange) {
		return "the number is out of range; write a smaller one"
	}
	switch bad.GetFlag().Value.Type() {
	case "int", "int64":
		return "write a whole number"
	case "uint64":
		return "write a whole number that is not below 0"
	case "intSlice", "int64Slice":
		return "write whole numbers with commas between them"
	case "stringSlice":
		return "write names with commas between them, and no quotation marks"
	case "bool":
		return "write true or false, or the flag alone"
	}
	return bad.Unwrap().Error()
}

// withValue is a flag as it is written with its value.
func withValue(flag *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(flag)
	return strings.TrimSpace("--" + flag.Name + " " + name)
}

func unknownFlag(cmd *cobra.Command, bad *pflag.NotExistError) string {
	if short := bad.GetSpecifiedShortnames(); short != "" {
		return fmt.Sprintf("unknown flag: -%s; flags of weir have two dashes, as --help", short)
	}
	text := "unknown flag: --" + bad.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near, ok := editdistance.Nearest(bad.GetSpecifiedName(), names); ok {
		text += "; did you mean --" + near + "?"
	}
	return text
}

// Cobra's words about commands that are not there, flags that are missing, flags that exclude each other, and
// flags that go together.
var (
	strayed   = regexp.MustCompile(`^unknown command (".*") for "weir"$`)
	missing   = regexp.MustCompile(`^required flag\(s\) "(.*)" not set$`)
	exclusive = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
	together  = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
)

// missingFlags says which flags a command needs, as they are written.
func missingFlags(cmd *cobra.Command, names string) string {
	var dashed, whole []string
	for name := range strings.SplitSeq(names, `", "`) {
		dashed = append(dashed, "--"+name)
		whole = append(whole, withValue(cmd.Flags().Lookup(name)))
	}
	is := "is"
	if len(dashed) > 1 {
		is = "are"
	}
	return fmt.Sprintf("%s %s missing; write %s", strings.Join(dashed, " and "), is, strings.Join(whole, " "))
}

// flagGroups says what to do about a group of flags; any other text it leaves alone.
func flagGroups(text string) string {
	if m := exclusive.FindStringSubmatch(text); m != nil {
		return dashed(m[1], " and ") + " exclude each other; leave one of them out"
	}
	if m := together.FindStringSubmatch(text); m != nil {
		return dashed(m[1], " and ") + " go together; give " + dashed(m[2], " and ") + ", too"
	}
	return text
}

// dashed are the names of flags as they are written.
func dashed(names, between string) string {
	return "--" + strings.Join(strings.Fields(names), between+"--")
}
