package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// usage is what to print of an error about flags and commands that cobra has found. It says
// what to write where cobra says only what is wrong.
func usage(err error) string {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Sprintf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), wanted(bad))
	}
	if bad, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		name, _ := pflag.UnquoteUsage(bad.GetFlag())
		return fmt.Sprintf("--%s has no value; write --%s %s", bad.GetSpecifiedName(), bad.GetSpecifiedName(), name)
	}
	return flagGroups(err.Error())
}

// wanted is what the flag of a value that it does not take wants instead.
func wanted(bad *pflag.InvalidValueError) string {
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
	case "duration":
		return "write a time with its unit, such as 10s or 5m"
	case "bool":
		return "write true or false, or the flag alone"
	}
	return bad.Unwrap().Error()
}

// Cobra's words about flags that exclude each other, and about some that go together.
var (
	exclusive = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
	together  = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
)

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
