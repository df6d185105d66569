package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/grpclimit"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const method = "/shop.Shop/Buy"

func newServer(t testing.TB, o grpclimit.Options, all ...grpclimit.Rule) *grpclimit.Server {
	t.Helper()
	s, err := grpclimit.NewServer(memstore.New(memstore.Options{}), all, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rule(name, limit string) grpclimit.Rule {
	return grpclimit.Rule{Name: name, Limit: weir.MustParseLimit(limit)}
}

// unary asks the interceptor as a gRPC server does.
func unary(ctx context.Context, s *grpclimit.Server, handler grpc.UnaryHandler) error {
	_, err := s.Unary(ctx, "message", &grpc.UnaryServerInfo{FullMethod: method}, handler)
	return err
}

func nothing(context.Context, any) (any, error) { return nil, nil } //nolint:nilnil // it has no answer

// serverStream is a stream that has n messages.
type serverStream struct {
	grpc.ServerStream

	ctx     context.Context
	n       int
	trailer metadata.MD
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) SetTrailer(md metadata.MD) { s.trailer = metadata.Join(s.trailer, md) }

func (s *serverStream) RecvMsg(any) error {
	if s.n--; s.n < 0 {
		return io.EOF
	}
	return nil
}

// streaming asks the interceptor for a stream as a gRPC server does.
func streaming(s *grpclimit.Server, stream *serverStream, handler grpc.StreamHandler) error {
	return s.Stream(nil, stream, &grpc.StreamServerInfo{FullMethod: method}, handler)
}

// from is the context of a call from an address.
func from(t testing.TB, address string) context.Context {
	return peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(mustAddr(address))})
}

func keyOf(ctx context.Context, key grpclimit.Key) string {
	k, err := key(ctx, method)
	if err != nil {
		return err.Error()
	}
	return k
}

// TestDenied: what a client is told.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		s := newServer(t, grpclimit.Options{Domain: "shop.example", OnDenied: func(_ context.Context, m string, d *grpclimit.Denial) {
			heard = append(heard, fmt.Sprint(m, d.Rules, d.RetryAfter))
		}}, rule("calls", "1/10s"), rule("bulk", "2/h burst 1"), rule("wide", "100/s"))
		stream := &serverStream{ctx: t.Context()}
		done := func(any, grpc.ServerStream) error { return nil }
		if err := streaming(s, stream, done); err != nil {
			t.Fatal(err)
		}
		err := streaming(s, stream, done)
		st := status.Convert(err)
		if st.Code() != codes.ResourceExhausted || st.Message() == "" {
			t.Errorf("%v", err)
		}
		want := []any{
			&errdetails.ErrorInfo{Reason: "RATE_LIMITED", Domain: "shop.example", Metadata: map[string]string{"rule": "calls", "limit": "1/10s"}},
			&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
				{Subject: "rule:calls", Description: "the limit is 1/10s", QuotaId: "calls", QuotaValue: 1},
				{Subject: "rule:bulk", Description: "the limit is 2/h burst 1", QuotaId: "bulk", QuotaValue: 1},
			}},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Minute)},
		}
		if diff := cmp.Diff(want, st.Details(), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if len(heard) != 1 || heard[0] != method+"[calls bulk] 30m0s" {
			t.Error(heard)
		}
		pushed := stream.trailer.Get("grpc-retry-pushback-ms")
		if len(pushed) != 1 {
			t.Fatal(stream.trailer)
		}
		ms, err := strconv.Atoi(pushed[0])
		if least := 1_800_000; err != nil || ms < least || ms > least+10_000 {
			t.Errorf("pushback %v", pushed)
		}
	})
}

// TestB18PushbackSpreads: clients obey the pushback to the millisecond, so those
// who are denied together must not be told the same.
func TestB18PushbackSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, grpclimit.Options{}, rule("calls", "1/min"))
		seen := map[string]bool{}
		for range 1000 {
			stream := &serverStream{ctx: t.Context()}
			if streaming(s, stream, func(any, grpc.ServerStream) error { return nil }) != nil {
				seen[stream.trailer.Get("grpc-retry-pushback-ms")[0]] = true
			}
		}
		if len(seen) < 800 { // of 6001 that are possible
			t.Errorf("999 clients were told %d times", len(seen))
		}
	})
}

// TestB22OddCosts: nothing, less than nothing, more than can ever pass, and a limit
// of nothing.
func TestB22OddCosts(t *testing.T) {
	for _, c := range []struct {
		limit  string
		cost   int64
		code   codes.Code
		reason string
	}{
		{"5/h", 0, codes.OK, ""},
		{"5/h", 5, codes.OK, ""},
		{"5/h", 6, codes.ResourceExhausted, "COST_TOO_HIGH"},
		{"5/h", weir.MaxCount + 1, codes.ResourceExhausted, "COST_TOO_HIGH"},
		{"5/h", 1<<63 - 1, codes.ResourceExhausted, "COST_TOO_HIGH"},
		{"5/h", -1, codes.InvalidArgument, ""},
		{"0/h", 1, codes.ResourceExhausted, "COST_TOO_HIGH"},
		{"0/h", 0, codes.OK, ""},
	} {
		r := rule("calls", c.limit)
		r.Cost = func(context.Context, string, any) int64 { return c.cost }
		stream := &serverStream{ctx: t.Context()}
		err := streaming(newServer(t, grpclimit.Options{}, r), stream, func(any, grpc.ServerStream) error { return nil })
		if status.Code(err) != c.code {
			t.Errorf("%s, cost %d: %v", c.limit, c.cost, err)
		}
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && info.Reason != c.reason {
				t.Errorf("%s, cost %d: %v", c.limit, c.cost, info)
			}
			if _, ok := d.(*errdetails.RetryInfo); ok {
				t.Errorf("%s, cost %d: it is to come back", c.limit, c.cost)
			}
		}
		if c.reason != "" && stream.trailer.Get("grpc-retry-pushback-ms")[0] != "-1" {
			t.Errorf("%s, cost %d: %v", c.limit, c.cost, stream.trailer)
		}
	}
}

// TestB24AppliedTwice: a call that meets the same interceptors twice is counted
// once, and that is told once.
func TestB24AppliedTwice(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, grpclimit.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, rule("calls", "3/h"))
	for i := range 4 {
		err := unary(t.Context(), s, func(ctx context.Context, _ any) (any, error) { return nil, unary(ctx, s, nothing) })
		if want := i >= 3; (err != nil) != want {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for range 2 {
		other := newServer(t, grpclimit.Options{}, rule("calls", "3/h")) // another is no repetition
		if err := unary(t.Context(), other, func(ctx context.Context, _ any) (any, error) {
			return nil, unary(ctx, newServer(t, grpclimit.Options{}, rule("calls", "0/h")), nothing)
		}); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "twice"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

// TestB16PermitsComeBack: whatever ends a call, its permit is free then.
func TestB16PermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, grpclimit.Options{}, rule("calls", "1 concurrent ttl 1h"))
		swallow := func(f func() error) {
			defer func() { _ = recover() }()
			_ = f()
		}
		panics := func(context.Context, any) (any, error) { panic("handler") }
		fails := func(context.Context, any) (any, error) { return nil, errors.New("handler") }
		for name, end := range map[string]func(){
			"returns": func() { swallow(func() error { return unary(t.Context(), s, nothing) }) },
			"fails":   func() { swallow(func() error { return unary(t.Context(), s, fails) }) },
			"panics":  func() { swallow(func() error { return unary(t.Context(), s, panics) }) },
			"stream panics": func() {
				swallow(func() error {
					return streaming(s, &serverStream{ctx: t.Context()}, func(any, grpc.ServerStream) error { panic("handler") })
				})
			},
			"client leaves": func() {
				ctx, cancel := context.WithCancel(t.Context())
				_ = unary(ctx, s, func(context.Context, any) (any, error) {
					cancel()
					return nil, ctx.Err()
				})
			},
		} {
			end()
			if err := unary(t.Context(), s, nothing); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestB17StreamsKeepTheirPermits: a stream that lasts for longer than the ttl keeps
// its permit, and clients that come back again and again get no more.
func TestB17StreamsKeepTheirPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, grpclimit.Options{}, rule("streams", "2 concurrent ttl 1min"))
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := streaming(s, &serverStream{ctx: t.Context()}, func(any, grpc.ServerStream) error {
					time.Sleep(10 * time.Minute)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for range 1000 {
			time.Sleep(500 * time.Millisecond)
			if err := unary(t.Context(), s, nothing); status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
		}
		all.Wait()
		if err := unary(t.Context(), s, nothing); err != nil {
			t.Error(err)
		}
	})
}

// TestMessages: a rule that counts messages ends a stream that sends too many, and
// leaves calls alone.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := rule("messages", "5/h")
		messages.Messages = true
		s := newServer(t, grpclimit.Options{}, messages, rule("calls", "2/h"))
		stream := &serverStream{ctx: t.Context(), n: 100}
		came := 0
		count := func(_ any, stream grpc.ServerStream) error {
			for {
				err := stream.RecvMsg(nil)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				came++
			}
		}
		if err := streaming(s, stream, count); status.Code(err) != codes.ResourceExhausted || came != 5 {
			t.Errorf("%v after %d messages", err, came)
		}
		if len(stream.trailer.Get("grpc-retry-pushback-ms")) != 1 {
			t.Error(stream.trailer)
		}
		if err := streaming(s, &serverStream{ctx: t.Context()}, count); err != nil {
			t.Error(err)
		}
		if err := streaming(s, &serverStream{ctx: t.Context()}, count); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
	})
}

// TestQueueHolds: a leaky-queue holds calls for their slot, and takes none for a
// call whose deadline comes first or whose client leaves.
func TestQueueHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, grpclimit.Options{}, rule("queue", "1/10s leaky-queue queue 5"))
		began := time.Now()
		var all sync.WaitGroup
		ask := func(ctx context.Context, want codes.Code, after time.Duration) {
			all.Go(func() {
				if err := unary(ctx, s, nothing); status.Code(err) != want || time.Since(began) != after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), want, after)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), codes.OK, 0)
		leaves, cancel := context.WithCancel(t.Context())
		ask(leaves, codes.Canceled, 4*time.Second)
		short, stop := context.WithTimeout(t.Context(), 9*time.Second)
		defer stop()
		ask(short, codes.ResourceExhausted, 0)
		time.Sleep(4 * time.Second)
		cancel()
		synctest.Wait()
		ask(t.Context(), codes.OK, 10*time.Second) // the slot that was given back
		all.Wait()
	})
}

// TestA1MappedAddresses: an IPv4 address is one client however it is written, and
// IPv6 ones are told apart by their /64 (A3).
func TestA1MappedAddresses(t *testing.T) {
	for want, addresses := range map[string][]string{
		"1.2.3.4":         {"1.2.3.4:5", "[::ffff:1.2.3.4]:6", "[::ffff:102:304]:7"},
		"192.0.2.33":      {"[64:ff9b::192.0.2.33]:5"}, // of NAT64
		"2001:db8::/64":   {"[2001:db8::1.2.3.4]:5", "[2001:db8::ffff:ffff:ffff:ffff]:5"},
		"2001:db8:1::/64": {"[2001:db8:1::1]:5"},
		"fe80::/64":       {"[fe80::1%eth0]:5", "[fe80::1%eth1]:5"},
	} {
		for _, a := range addresses {
			if got := keyOf(from(t, a), grpclimit.Peer); got != want {
				t.Errorf("%s: %s, want %s", a, got, want)
			}
		}
	}
	written := peer.NewContext(t.Context(), &peer.Peer{Addr: address("[::ffff:1.2.3.4]:5")}) // not every Addr writes it as IPv4
	if got := keyOf(written, grpclimit.Peer); got != "1.2.3.4" {
		t.Error(got)
	}
	socket := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "@", Net: "unix"}})
	if got := keyOf(socket, grpclimit.Peer); got != "unix" {
		t.Error(got)
	}
	if got := keyOf(t.Context(), grpclimit.Peer); got != grpclimit.ErrNoKey.Error() {
		t.Error(got)
	}
}

// address is a net.Addr as it is written.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// TestA6Separators: no two lists of parts are one key.
func TestA6Separators(t *testing.T) {
	part := rapid.StringMatching(`[0-9:ab]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		fixed := func(parts []string) grpclimit.Key {
			var keys []grpclimit.Key
			for _, p := range parts {
				keys = append(keys, func(context.Context, string) (string, error) { return p, nil })
			}
			return grpclimit.Join(keys...)
		}
		a := rapid.SliceOfN(part, 1, 3).Draw(t, "a")
		b := rapid.SliceOfN(part, 1, 3).Draw(t, "b")
		ka, kb := keyOf(context.Background(), fixed(a)), keyOf(context.Background(), fixed(b))
		if (ka == kb) != cmp.Equal(a, b) {
			t.Fatalf("%q is %q, and %q is %q", a, ka, b, kb)
		}
	})
}

// TestA10NoKey: a call that does not tell whose it is shares no count with others:
// it is refused, or the rule leaves it alone.
func TestA10NoKey(t *testing.T) {
	r := rule("keys", "1/h")
	r.Key = grpclimit.Metadata("X-Api-Key")
	with := func(pairs ...string) context.Context {
		return metadata.NewIncomingContext(t.Context(), metadata.Pairs(pairs...))
	}
	s := newServer(t, grpclimit.Options{}, r)
	for _, c := range []struct {
		ctx  context.Context
		want codes.Code
	}{
		{with("x-api-key", "ann"), codes.OK},
		{with("x-api-key", "ann"), codes.ResourceExhausted},
		{with("x-api-key", "bob"), codes.OK},
		{with("x-api-key", "cy", "x-api-key", "ann"), codes.InvalidArgument}, // who is it?
		{with("x-api-key", ""), codes.InvalidArgument},
		{with(), codes.InvalidArgument},
		{t.Context(), codes.InvalidArgument},
	} {
		if err := unary(c.ctx, s, nothing); status.Code(err) != c.want {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	r.Optional = true
	s = newServer(t, grpclimit.Options{}, r)
	for range 3 {
		if err := unary(with(), s, nothing); err != nil {
			t.Error(err)
		}
	}
	if err := unary(with("x-api-key", "cy", "x-api-key", "ann"), s, nothing); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a second key is a way around: %v", err)
	}
}

func TestPlansAndShadow(t *testing.T) {
	shadows := 0
	plan := rule("plan", "1/h")
	user := grpclimit.Metadata("user")
	plan.Plan = func(ctx context.Context, _ string) *weir.Limit {
		if name, _ := user(ctx, ""); name == "gold" {
			return weir.MustParseLimit("3/h")
		}
		return nil
	}
	shadow := rule("shadow", "2/h")
	shadow.Shadow = true
	s := newServer(t, grpclimit.Options{OnDenied: func(_ context.Context, _ string, d *grpclimit.Denial) {
		if d.Shadow && d.Passed {
			shadows++
		}
	}}, plan, shadow)
	for user, want := range map[string]int{"gold": 3, "tin": 1} { // each plan has counts of its own
		passed := 0
		for range 5 {
			if unary(metadata.NewIncomingContext(t.Context(), metadata.Pairs("user", user)), s, nothing) == nil {
				passed++
			}
		}
		if passed != want {
			t.Errorf("%s: %d passed, want %d", user, passed, want)
		}
	}
	queue := rule("queue", "1/h leaky-queue")
	queue.Shadow = true
	s = newServer(t, grpclimit.Options{}, queue)
	for range 3 { // it would be hours
		if err := unary(t.Context(), s, nothing); err != nil {
			t.Error(err)
		}
	}
	huge := rule("huge", "5/h")
	huge.Shadow, huge.Cost = true, func(context.Context, string, any) int64 { return weir.MaxCount + 1 }
	heard := 0
	s = newServer(t, grpclimit.Options{OnDenied: func(context.Context, string, *grpclimit.Denial) { heard++ }}, huge)
	if err := unary(t.Context(), s, nothing); err != nil || heard != 1 {
		t.Errorf("%v, heard of %d times", err, heard)
	}
	if shadows != 2 {
		t.Errorf("%d would have been denied by the shadow", shadows)
	}
}

type brokenStore struct{ weir.Store }

func (brokenStore) Take(context.Context, []weir.Ask, []weir.Decision) error { return weir.ErrAway }

func TestStoreAway(t *testing.T) {
	var told []error
	o := grpclimit.Options{OnDenied: func(_ context.Context, _ string, d *grpclimit.Denial) { told = append(told, d.Err) }}
	for _, open := range []bool{false, true} {
		o.FailOpen = open
		s, err := grpclimit.NewServer(brokenStore{memstore.New(memstore.Options{})}, []grpclimit.Rule{rule("calls", "1/h")}, o)
		if err != nil {
			t.Fatal(err)
		}
		err = unary(t.Context(), s, nothing)
		if want := codes.Unavailable; open && err != nil || !open && status.Code(err) != want {
			t.Errorf("open %v: %v", open, err)
		}
		if err != nil && strings.Contains(err.Error(), "store") {
			t.Errorf("it tells clients of the store: %v", err)
		}
	}
	if len(told) != 2 || !errors.Is(told[0], weir.ErrAway) {
		t.Error(told)
	}
}

func TestSkip(t *testing.T) {
	s := newServer(t, grpclimit.Options{Skip: grpclimit.HealthOrReflection}, rule("calls", "0/h"))
	for m, want := range map[string]codes.Code{
		"/grpc.health.v1.Health/Check": codes.OK, "/grpc.health.v1.Health/Watch": codes.OK,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      codes.OK,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": codes.OK,
		"/grpc.healthy.Shop/Buy": codes.ResourceExhausted, method: codes.ResourceExhausted,
	} {
		_, err := s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: m}, nothing)
		if status.Code(err) != want {
			t.Errorf("%s: %v", m, err)
		}
	}
}

func TestFromRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := rules.Parse("shop.yaml", []byte(`
domain: shop
descriptors:
  - key: method
    descriptors:
      - key: user
        limits: [2/h, 1 concurrent ttl 1h]
`))
		if err != nil {
			t.Fatal(err)
		}
		limiter := rules.NewLimiter(memstore.New(memstore.Options{}), set)
		s, err := grpclimit.NewServerFromRules(limiter, "shop", func(_ context.Context, m string, message any) []rules.Descriptor {
			if m != method {
				return nil
			}
			return []rules.Descriptor{{Entries: []rules.Entry{{Key: "method", Value: m}, {Key: "user", Value: message.(string)}}, Cost: 1}}
		}, grpclimit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = unary(t.Context(), s, func(context.Context, any) (any, error) {
			err := unary(t.Context(), s, nothing)
			if info := status.Convert(err).Details(); status.Code(err) != codes.ResourceExhausted || len(info) != 3 {
				t.Errorf("%v, %v: the permit is held", err, info)
			}
			return nil, nil //nolint:nilnil // it has no answer
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := unary(t.Context(), s, nothing); err != nil {
			t.Error(err)
		}
		if err := unary(t.Context(), s, nothing); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		if _, err := s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/other"}, nothing); err != nil {
			t.Error(err)
		}
	})
}

func TestFaults(t *testing.T) {
	store := memstore.New(memstore.Options{})
	messages := rule("m", "1 concurrent")
	messages.Messages = true
	_, err := grpclimit.NewServer(store, []grpclimit.Rule{rule("a", "1/s"), rule("a", "1/s"), rule("", "1/s"), rule("ä", "1/s"), {Name: "b"}, messages}, grpclimit.Options{})
	for _, want := range []string{`rule 1, "a"`, `rule 2, ""`, `rule 3, "ä"`, `rule 4, "b": it has no Limit`, `rule 5, "m"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a word about %s", err, want)
		}
	}
	if _, err := grpclimit.NewServer(store, nil, grpclimit.Options{}); err == nil {
		t.Error("no rules are no fault")
	}
	limiter := rules.NewLimiter(store, rules.Demo())
	if _, err := grpclimit.NewServerFromRules(limiter, "", nil, grpclimit.Options{}); err == nil || !strings.Contains(err.Error(), "domain") || !strings.Contains(err.Error(), "descriptors") {
		t.Error(err)
	}
	if _, err := grpclimit.NewServer(nil, []grpclimit.Rule{rule("a", "1/s")}, grpclimit.Options{}); err == nil || !strings.Contains(err.Error(), "the store is nil; pass one") {
		t.Error(err)
	}
	describe := func(context.Context, string, any) []rules.Descriptor { return nil }
	if _, err := grpclimit.NewServerFromRules(limiter, "dmeo", describe, grpclimit.Options{}); err == nil || !strings.Contains(err.Error(), "did you mean demo?") {
		t.Error(err)
	}
	if _, err := grpclimit.NewServerFromRules(nil, "demo", describe, grpclimit.Options{}); err == nil || !strings.Contains(err.Error(), "the limiter is nil; pass one") {
		t.Error(err)
	}
	_, err = grpclimit.NewServer(noWarmUp{store}, []grpclimit.Rule{rule("a", "10/s warm-up 1s")}, grpclimit.Options{})
	if err == nil || !strings.Contains(err.Error(), `rule 0, "a": the store can't keep "10/s warm-up 1s": take gcra`) {
		t.Error(err)
	}
	if _, err := grpclimit.NewClient(grpclimit.ClientOptions{MaxTries: -1}); err == nil || !strings.Contains(err.Error(), "MaxTries") {
		t.Error(err)
	}
}

// noWarmUp is a store that can't keep a limit.
type noWarmUp struct{ *memstore.Store }

func (noWarmUp) Traits() weir.Traits {
	return weir.Traits{Unfit: func(l *weir.Limit) string {
		if l.Algorithm() == weir.WarmUp {
			return "take gcra"
		}
		return ""
	}}
}
