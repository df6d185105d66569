package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
	"github.com/weir-limit/weir/internal/editdistance"
)

// variablePrefix is what variables for weir begin with.
const variablePrefix = "WEIR_"

// variableOf is the environment variable that a flag of weir serve may come from.
func variableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment are flags that came from the environment: their variables, by the flag as it is written.
type fromEnvironment map[string]string

// readEnvironment takes flags that were not given from their variables. An empty variable counts as not given
// either. It fails with the names of variables whose values their flags don't take.
func readEnvironment(f *pflag.FlagSet, lookUp func(string) string) (fromEnvironment, error) {
	from := fromEnvironment{}
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		variable := variableOf(flag.Name)
		value := lookUp(variable)
		if value == "" || flag.Changed || flag.Name == "help" {
			return
		}
		from["--"+flag.Name] = variable
		if err := setFlag(f, flag.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", variable, value, err))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return from, usagef("%w", err)
	}
	return from, nil
}

// setFlag sets a flag by a variable's value.
func setFlag(f *pflag.FlagSet, name, value string) error {
	err := f.Set(name, value)
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return errors.New(strings.TrimSuffix(valueOf(bad), ", or the flag alone"))
	}
	return err
}

// named has the errors that speak of a flag speak of its variable instead, where the value came from there: who has set a
// variable looks for its name.
func (from fromEnvironment) named(err error) error {
	if bad, ok := err.(*daemon.ConfigError); ok { //nolint:errorlint // what it wraps is looked at below
		if variable, ok := from[bad.Flag]; ok {
			return &daemon.ConfigError{Flag: variable, Text: bad.Text}
		}
		return bad
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, one := range all.Unwrap() {
			errs = append(errs, from.named(one))
		}
		return errors.Join(errs...)
	}
	return err
}

// warnOfUnknown logs variables that look as if they were for weir serve, and are not: a mistyped one would leave
// a default unseen.
func warnOfUnknown(f *pflag.FlagSet, environ []string, log *slog.Logger) {
	known := []string{tokenVariable}
	f.VisitAll(func(flag *pflag.Flag) { known = append(known, variableOf(flag.Name)) })
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case !strings.HasPrefix(name, variablePrefix), slices.Contains(known, name):
		case strings.HasPrefix(name, "WEIR_TEST_"), importenv.OfService(name):
		default:
			near := "none; weir help serve lists the flags"
			if other, ok := editdistance.Nearest(name, known); ok {
				near = other
			}
			log.Warn("a variable that weir does not know is ignored", "variable", name, "nearest", near)
		}
	}
}
