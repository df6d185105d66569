package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience is how long a server may take on a machine that has much else to do.
const patience = 40 * time.Second

// output is what a process says.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a server that was started here.
type process struct {
	cmd *exec.Cmd
	out output
	end chan struct{} // closed when it is gone
}

func start(ctx context.Context, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), end: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.end)
		_ = p.cmd.Wait() // how it ended does not matter: it is stopped from here
	}()
	return p, nil
}

func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.end
}

// await waits until ready says nothing, and fails with what it says last.
func await(ctx context.Context, p *process, ready func() string) error {
	missing := ""
	for until := time.Now().Add(patience); time.Now().Before(until); {
		if missing = ready(); missing == "" {
			return nil
		}
		select {
		case <-p.end:
			return fmt.Errorf("it has ended:\n%s", tail(p.out.String()))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return errors.New(missing + "\n" + tail(p.out.String()))
}

// tail is the end of a text.
func tail(text string) string {
	const most = 3000
	return text[max(0, len(text)-most):]
}

// server answers ShouldRateLimit.
type server struct {
	*process

	name  string
	admin string // of Weir
	calls rls.RateLimitServiceClient
}

var readyLine = regexp.MustCompile(`weir ready http=\S+ grpc=(\S+) admin=(\S+)`)

// startWeir starts Weir with rules of a control plane.
func startWeir(ctx context.Context, b *built, rules string) (*server, error) {
	p, err := start(ctx, nil, b.weir, "serve", "--rules", rules, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var said []string
	err = await(ctx, p, func() string {
		if said = readyLine.FindStringSubmatch(p.out.String()); said == nil {
			return "weir is not ready"
		}
		return ""
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	calls, err := dial(said[1])
	return &server{p, "weir", said[2], calls}, err
}

func dial(address string) (rls.RateLimitServiceClient, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return rls.NewRateLimitServiceClient(conn), nil
}

// page is a page of the admin listener.
func (s *server) page(ctx context.Context, path string) string {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+path, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// entry is a key and a value of a request.
type entry struct{ key, value string }

// ask asks about one descriptor.
func (s *server) ask(ctx context.Context, domain string, entries []entry) (*rls.RateLimitResponse, error) {
	d := &ratelimit.RateLimitDescriptor{}
	for _, e := range entries {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e.key, Value: e.value})
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.calls.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}}, grpc.WaitForReady(true))
}

// freePort is a port of loopback that nobody has now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func text(entries []entry) string {
	var parts []string
	for _, e := range entries {
		parts = append(parts, e.key+"="+e.value)
	}
	return strings.Join(parts, " ")
}
