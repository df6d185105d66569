package main

import (
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// logging is how a daemon writes its log.
type logging struct{ level, format string }

func logFlags(f *pflag.FlagSet, l *logging) {
	f.StringVar(&l.level, "log-level", "info", "`LEVEL` from which on the log has a line: debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "text", "`FORMAT` of the log: text, as key=value, or json, a line each")
}

// open is the log that goes to w. from names the variables that flags came of.
func (l *logging) open(w io.Writer, from fromEnvironment) (*slog.Logger, error) {
	name := func(flag string) string {
		if variable, ok := from[flag]; ok {
			return variable
		}
		return flag
	}
	var level slog.Level
	switch strings.ToLower(l.level) {
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, err
		}
	default:
		return nil, usagef("%s: %q is no level; write debug, info, warn or error", name("--log-level"), l.level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, usagef("%s: %q is no format; write text or json", name("--log-format"), l.format)
}
