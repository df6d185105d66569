package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/natsstore"
)

// natsServerEnv has this program be a nats-server, at the port and in the folder that it names.
const natsServerEnv = "WEIR_BENCH_NATS"

// natsServer is a nats-server of this run, in a process of its own.
type natsServer struct {
	addr    string
	folder  string
	command *exec.Cmd
	stores  []*natsstore.Store
	client  *nats.Conn
}

// serveNATS is what the process of a nats-server does, until its input ends.
func serveNATS(at string) error {
	port, folder, _ := strings.Cut(at, " ")
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n, JetStream: true, StoreDir: folder, NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	s.Start()
	_, err = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	return err
}

// startNATS starts one that ends with ctx at the latest.
func startNATS(ctx context.Context) (*natsServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &natsServer{addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, err
	}
	if n.folder, err = os.MkdirTemp("", "weir-bench-nats"); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(n.addr) // it is one
	n.command = exec.CommandContext(ctx, os.Args[0])
	n.command.Env = append(os.Environ(), natsServerEnv+"="+port+" "+n.folder)
	if _, err := n.command.StdinPipe(); err != nil { // it ends with this process
		return nil, err
	}
	if err := n.command.Start(); err != nil {
		return nil, err
	}
	for _, options := range []string{"?bucket=memory&storage=memory", "?bucket=file"} {
		s, err := natsstore.Dial("nats://"+n.addr+options, natsstore.Options{})
		if err != nil {
			return nil, err
		}
		n.stores = append(n.stores, s)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := errors.Join(n.stores[0].Ping(ctx, 0), n.stores[1].Ping(ctx, 0))
		if err == nil {
			break
		}
		if time.Now().After(end) {
			n.stop()
			return nil, fmt.Errorf("nats-server does not answer: %w", err)
		}
	}
	n.client, err = nats.Connect("nats://" + n.addr)
	return n, err
}

func (n *natsServer) stop() {
	if n == nil {
		return
	}
	for _, s := range n.stores {
		_ = s.Close()
	}
	if n.client != nil {
		n.client.Close()
	}
	_ = n.command.Process.Kill() // it may have ended
	_ = n.command.Wait()         // it was killed
	_ = os.RemoveAll(n.folder)
}

// cpu is the time that the server has used, and the kernel for it.
func (n *natsServer) cpu(context.Context) (time.Duration, error) {
	return processCPU(n.command.Process.Pid)
}

// ways are ours with a bucket in memory and one in a file, and what can be done with the client's own
// key-value store: a count that is read, decided on and written if it is still the same.
func (n *natsServer) ways(ctx context.Context) ([]way, error) {
	js, err := jetstream.New(n.client)
	if err != nil {
		return nil, err
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "plain", Storage: jetstream.MemoryStorage, LimitMarkerTTL: time.Minute})
	if err != nil {
		return nil, err
	}
	all := []way{n.ours("weir", n.stores[0]), {"nats.go get and update", n.cpu, func(ctx context.Context, key string) (bool, error) {
		return swapKey(ctx, kv, key)
	}}}
	return append(all, n.ours("weir in a file", n.stores[1])), nil
}

func (n *natsServer) ours(name string, s *natsstore.Store) way {
	limit := weir.MustParseLimit("100/s burst 100")
	return way{name, n.cpu, func(ctx context.Context, key string) (bool, error) {
		var asks [1]weir.Ask
		var out [1]weir.Decision
		asks[0] = weir.Ask{State: weir.StateKey{Rule: "r#gcra", Key: key}, Limit: limit, Cost: 1}
		err := s.Take(ctx, asks[:], out[:])
		return out[0].Outcome == weir.Allowed, err
	}}
}

// swapKey writes a value as long as what Weir keeps of one count; when other processes are faster,
// again.
func swapKey(ctx context.Context, kv jetstream.KeyValue, key string) (bool, error) {
	value := []byte("a count, when it was last used, and the text of the limit that it is of, all in 96 bytes or less")
	for {
		entry, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			_, err = kv.Create(ctx, key, value, jetstream.KeyTTL(time.Minute))
		} else if err == nil {
			_, err = kv.Update(ctx, key, value, entry.Revision())
		}
		refused := (*jetstream.APIError)(nil)
		if !errors.Is(err, jetstream.ErrKeyExists) && !(errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence) {
			return true, err
		}
	}
}

// inNATS measures Weir's store in NATS, over many keys and one, beside the client's own key-value
// store.
func (b *bench) inNATS(ctx context.Context) error {
	ways, err := b.nats.ways(ctx)
	if err != nil {
		return err
	}
	for _, callers := range []int{goroutines, 1} {
		what := "NATS, 256 goroutines, 10,000 keys: "
		if callers == 1 {
			what = "NATS, one goroutine: "
		}
		of, err := b.byTurns(ctx, ways, callers)
		if err != nil {
			return err
		}
		b.rates(what, ways, of, nil)
		b.table.Compare(what+"CPU of the server for a decision, beside "+ways[1].name, "µs", of[0].server, of[1].server, nil)
		b.table.Compare(what+"our CPU of a decision, beside "+ways[1].name, "µs", of[0].client, of[1].client, nil)
		if callers == goroutines {
			rate := table.Median(of[0].rate)
			b.table.Rows = append(b.table.Rows, table.Row{
				What: "NATS, 256 goroutines, 10,000 keys: decisions/s", Weir: table.Spread(of[0].rate, ""),
				Measured: fmt.Sprintf("%.0f/s", rate), Target: "≥ 60,000/s", Verdict: table.AtLeast(60_000).Verdict(rate),
			})
		}
	}
	return b.hotInNATS(ctx)
}

// hotInNATS measures how many decisions of one key share a write.
func (b *bench) hotInNATS(ctx context.Context) error {
	s, limit := b.nats.stores[0], weir.MustParseLimit("1000000/s burst 1000000")
	asks := []weir.Ask{{State: weir.StateKey{Rule: "hot#gcra", Key: "hot"}, Limit: limit, Cost: 1}}
	_, last := b.rounds()
	before, began := s.Stats().Trips, time.Now()
	n, err := b.load(ctx, goroutines, last, func(ctx context.Context, _ string) (bool, error) {
		out := make([]weir.Decision, 1)
		err := s.Take(ctx, asks, out)
		return out[0].Outcome == weir.Allowed, err
	})
	if err != nil {
		return err
	}
	took, shared := time.Since(began).Seconds(), float64(n)/float64(s.Stats().Trips-before)
	b.table.Rows = append(b.table.Rows, table.Row{
		What: "NATS, 256 goroutines, one key: decisions for each swap", Weir: fmt.Sprintf("%.0f decisions/s", float64(n)/took),
		Measured: fmt.Sprintf("%.1f", shared), Target: "> 1", Verdict: table.AtLeast(1.01).Verdict(shared),
	})
	return nil
}
