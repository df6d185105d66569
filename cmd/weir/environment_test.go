package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
)

// TestEnvironment: every flag of weir serve comes from its variable as from the command line, and the flag wins.
func TestEnvironment(t *testing.T) {
	var byFlag, byVariable, both daemon.Config
	flags, variables, mixed := pflag.NewFlagSet("a", pflag.ContinueOnError), pflag.NewFlagSet("b", pflag.ContinueOnError), pflag.NewFlagSet("c", pflag.ContinueOnError)
	serveFlags(flags, &byFlag)
	serveFlags(variables, &byVariable)
	serveFlags(mixed, &both)
	environ, args := map[string]string{}, []string{}
	flags.VisitAll(func(f *pflag.Flag) {
		value := "value of " + f.Name
		switch f.Value.Type() {
		case "bool":
			value = "true"
		case "TIME":
			value = "2day"
		}
		args = append(args, "--"+f.Name+"="+value)
		environ["WEIR_"+strings.ReplaceAll(strings.ToUpper(f.Name), "-", "_")] = value
	})
	if len(args) < 25 {
		t.Errorf("%d flags", len(args))
	}
	from, err := readEnvironment(variables, func(name string) string { return environ[name] })
	if err := errors.Join(err, flags.Parse(args), mixed.Parse(args)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(byFlag, byVariable, cmpopts.IgnoreUnexported(daemon.Config{})); d != "" || byVariable.GRPCMaxAge != 48*time.Hour || len(from) != len(args) {
		t.Errorf("%d of %d came from the environment: %s", len(from), len(args), d)
	}
	if from, err := readEnvironment(mixed, func(string) string { return "false" }); err != nil || len(from) > 0 || both.Store != "value of store" || !both.HashKeys {
		t.Errorf("flags and variables: %v, %v, %+v", from, err, both)
	}
}

// TestEnvironmentErrors: a bad value is told by the name of its variable, wherever it is found.
func TestEnvironmentErrors(t *testing.T) {
	var c daemon.Config
	f := pflag.NewFlagSet("a", pflag.ContinueOnError)
	serveFlags(f, &c)
	environ := map[string]string{"WEIR_HASH_KEYS": "maybe", "WEIR_GRPC_MAX_CONNECTION_AGE": "soon", "WEIR_STORE": "x"}
	_, err := readEnvironment(f, func(name string) string { return environ[name] })
	want := "WEIR_GRPC_MAX_CONNECTION_AGE \"soon\": \"soon\" is no time; write one such as 500ms, 30s, 10min, 2h or 1day\nWEIR_HASH_KEYS \"maybe\": write true or false"
	if err == nil || err.Error() != want || exitCode(err) != exitUsage {
		t.Errorf("%v, want %s", err, want)
	}
	from := fromEnvironment{"--store": "WEIR_STORE"}
	err = from.named(errors.Join(&daemon.ConfigError{Flag: "--store", Text: "no"}, &daemon.ConfigError{Flag: "--http", Text: "no"}))
	if err.Error() != "WEIR_STORE: no\n--http: no" || codeOf(err) != exitUsage || from.named(nil) != nil {
		t.Errorf("%v", err)
	}
}

// TestUnknownVariables: one that is no flag is named in the log, with the nearest that is.
func TestUnknownVariables(t *testing.T) {
	var c daemon.Config
	f := pflag.NewFlagSet("a", pflag.ContinueOnError)
	serveFlags(f, &c)
	var log bytes.Buffer
	warnOfUnknown(f, []string{
		"WEIR_STOR=x", "WEIR_TLSCERT=x", "WEIR_COLOUR=x", "WEIR_STORE=x", "WEIR_TOKEN=x", "WEIR_TEST_REDIS=x", "PATH=/bin", "WEIRD=x",
		"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_PORT=tcp://10.0.0.1:8080", "WEIR_PORT_8080_TCP_ADDR=10.0.0.1", "WEIR_ADMIN_SERVICE_PORT=8082",
	}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	const text = `level=WARN msg="a variable that weir does not know is ignored" variable=`
	want := []string{text + "WEIR_STOR nearest=WEIR_STORE", text + "WEIR_TLSCERT nearest=WEIR_TLS_CERT", text + `WEIR_COLOUR nearest="none; weir help serve lists the flags"`}
	if got := strings.Split(strings.TrimSpace(log.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("%s", cmp.Diff(want, got))
	}
}
