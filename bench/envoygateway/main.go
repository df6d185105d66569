// Command envoygateway has the real Envoy Gateway hand its rules to Weir, and asks Weir as Envoy
// would. Then it hands all rate limit configurations that are in Envoy Gateway's own tests to Weir and to a real
// envoyproxy/ratelimit, asks both the same, and prints every difference.
//
// Envoy Gateway listens on fixed ports, so all runs in a network of its own where the system lets it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Exit codes, as weir's.
const (
	exitNo    = 1 // something was not as it should be
	exitUsage = 2
	exitNot   = 3 // it could not be tried
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	var b built
	inside := flag.Bool("inside", false, "this is in a network of its own already")
	here := flag.Bool("here", false, "stay in the network of the machine")
	only := flag.String("only", "", "`PART` to try alone: gateway or golden")
	flag.StringVar(&b.weir, "weir", "", "`FILE` of weir (default: it is built)")
	flag.StringVar(&b.gateway, "gateway", "", "`FILE` of envoy-gateway (default: it is built, which takes minutes)")
	flag.StringVar(&b.ratelimit, "ratelimit", "", "`FILE` of envoyproxy/ratelimit (default: it is built)")
	flag.Parse()
	if flag.NArg() > 0 || *only != "" && *only != "gateway" && *only != "golden" {
		flag.Usage()
		return exitUsage
	}
	if err := b.build(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "not tried:", err)
		return exitNot
	}
	if !*inside && !*here && os.Getuid() == 0 {
		return apart(ctx, &b, *only)
	}
	faults := 0
	for _, part := range []struct {
		name string
		try  func(context.Context, *built) (faults int, err error)
	}{{"gateway", tryGateway}, {"golden", tryGolden}} {
		if *only != "" && *only != part.name {
			continue
		}
		n, err := part.try(ctx, &b)
		if err != nil {
			fmt.Fprintln(os.Stderr, "not tried:", part.name+":", err)
			return exitNot
		}
		faults += n
	}
	if faults > 0 {
		fmt.Printf("%d faults\n", faults)
		return exitNo
	}
	fmt.Println("no faults")
	return 0
}

// apart runs the same again in a network of its own, which has loopback alone.
func apart(ctx context.Context, b *built, only string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "not tried:", err)
		return exitNot
	}
	cmd := exec.CommandContext(ctx, "unshare", "--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`,
		self, "-inside", "-only", only, "-weir", b.weir, "-gateway", b.gateway, "-ratelimit", b.ratelimit)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "not tried:", err, "(with -here it stays in the network of the machine)")
		return exitNot
	}
	return 0
}
