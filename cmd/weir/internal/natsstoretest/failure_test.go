package natsstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/natsstore"
)

// take takes one event of a key.
func take(ctx context.Context, s *natsstore.Store, limit, key string) (weir.Decision, error) {
	out := make([]weir.Decision, 1)
	err := s.Take(ctx, []weir.Ask{{State: weir.StateKey{Rule: "r", Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1}}, out)
	return out[0], err
}

// passes takes one event of a key until that is decided.
func passes(t *testing.T, s *natsstore.Store, limit, key string) weir.Decision {
	t.Helper()
	var d weir.Decision
	natstest.Until(t, "a take is decided", func() bool {
		var err error
		d, err = take(t.Context(), s, limit, key)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	return d
}

// want checks that an error says all of this.
func want(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, and does not say %q", err, text)
		}
	}
}

// TestRestart: a bucket in a file keeps its counts when its server restarts, and one in memory
// begins anew. While the server is away takes fail at once.
func TestRestart(t *testing.T) {
	server := natstest.Start(t)
	file, memory := dial(t, "nats://"+server.Addr), dial(t, "nats://"+server.Addr+"?bucket=m&storage=memory")
	for _, s := range []*natsstore.Store{file, memory} {
		for n := range int64(3) {
			if d := passes(t, s, "10/day", "k"); d.Remaining != 9-n {
				t.Fatalf("%+v", d)
			}
		}
	}
	server.Stop()
	natstest.Until(t, "takes fail", func() bool {
		_, err := take(t.Context(), file, "10/day", "k")
		return err != nil
	})
	begin := time.Now()
	for range 100 {
		if _, err := take(t.Context(), file, "10/day", "k"); err == nil {
			t.Fatal("the server is away, and a take passed")
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("100 takes of a server that is away took %v", took)
	}
	server.Restart(t)
	if d := passes(t, file, "10/day", "k"); d.Remaining > 6 || d.Remaining < 5 {
		t.Errorf("a restarted server with a file: %+v", d)
	}
	if d := passes(t, memory, "10/day", "k"); d.Remaining != 9 {
		t.Errorf("a restarted server with memory: %+v", d)
	}
}

// TestOldViews: what a process remembers of a bucket matches no write of the one that is made in its
// place, though that has as many writes.
func TestOldViews(t *testing.T) {
	server := natstest.Start(t)
	a, b := dial(t, "nats://"+server.Addr), dial(t, "nats://"+server.Addr)
	passes(t, b, "10/day", "other") // it waits for no bucket to be made
	for range 3 {
		passes(t, a, "10/day", "k")
	}
	if err := connect(t, server.Addr).DeleteKeyValue(t.Context(), natsstore.DefaultBucket); err != nil {
		t.Fatal(err)
	}
	passes(t, b, "10/day", "other") // the first makes the bucket
	ask := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("10/day"), Cost: 2}}
	for range 2 {
		if err := b.Take(t.Context(), ask, make([]weir.Decision, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if d := passes(t, a, "10/day", "k"); d.Remaining != 5 {
		t.Errorf("%+v; want 5 of 10 to remain", d)
	}
}

// TestAnswerIsLost: the error says that it may have been a charge, and nothing is sent again.
func TestAnswerIsLost(t *testing.T) {
	server := natstest.Start(t)
	var writes atomic.Int64
	var armed, cutting atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		if !answer && armed.Load() && bytes.Contains(b, []byte("HPUB $KV.weir.r.")) {
			writes.Add(1)
			cutting.Store(true)
		}
		if answer && cutting.CompareAndSwap(true, false) {
			return min(3, len(b)), true
		}
		return len(b), false
	})
	s := dial(t, "nats://"+addr)
	passes(t, s, "10/day", "k")
	armed.Store(true)
	_, err := take(t.Context(), s, "10/day", "k")
	armed.Store(false)
	want(t, err, addr, "may have been a charge")
	if writes.Load() != 1 {
		t.Errorf("%d writes were sent", writes.Load())
	}
	if d := passes(t, s, "10/day", "k"); d.Remaining != 7 {
		t.Errorf("%+v, want 7 to remain", d)
	}
}

// TestWrongAnswers: answers that come twice, late, or as an earlier one are no answers. No more passes than is charged.
func TestWrongAnswers(t *testing.T) {
	server := natstest.Start(t)
	direct := dial(t, "nats://"+server.Addr)
	for _, way := range []string{proxytest.Twice, proxytest.Anothers} {
		t.Run(way, func(t *testing.T) {
			var n, failed atomic.Int64
			addr := proxytest.Wrong(t, server.Addr, way, func(b []byte) (answer, wrong bool) {
				if !bytes.HasPrefix(b, []byte("MSG ")) && !bytes.HasPrefix(b, []byte("HMSG ")) {
					return false, false
				}
				return true, n.Add(1)%5 == 0
			})
			s := dial(t, "nats://"+addr)
			var passed [8]atomic.Int64
			var wg sync.WaitGroup
			for i := range passed {
				wg.Go(func() {
					for range 12 {
						ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
						d, err := take(ctx, s, "20/day fixed-window", fmt.Sprint(way, i))
						cancel()
						if err != nil {
							failed.Add(1)
						} else if d.Charged {
							passed[i].Add(1)
						}
					}
				})
			}
			wg.Wait()
			for i := range passed {
				n := passed[i].Load()
				for passes(t, direct, "20/day fixed-window", fmt.Sprint(way, i)).Charged {
					n++
				}
				if n > 20 {
					t.Errorf("key %d: %d passed of 20", i, n)
				}
			}
			t.Logf("%d of 96 takes failed", failed.Load())
		})
	}
}

// TestServerIsSilent: callers leave by themselves, and hear whether it may have been a charge; Close
// frees those that wait, and leaves no goroutine behind.
func TestServerIsSilent(t *testing.T) {
	server := natstest.Start(t)
	var silent atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		if answer && silent.Load() {
			return 0, false
		}
		return len(b), false
	})
	before := runtime.NumGoroutine()
	s := dial(t, "nats://"+addr)
	passes(t, s, "10/day", "a")
	silent.Store(true)
	for key, says := range map[string]string{"a": "may have been a charge", "b": "nothing was decided"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := take(ctx, s, "10/day", key)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", key, err)
		}
		want(t, err, addr, says)
	}
	var waiting sync.WaitGroup
	for n := range 20 {
		waiting.Go(func() {
			if _, err := take(t.Context(), s, "10/day", fmt.Sprint(n)); err == nil {
				t.Error("a silent server decided")
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	begin := time.Now()
	_ = s.Close()
	waiting.Wait()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	natstest.Until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+4 }) // the proxy's
	_, err := take(t.Context(), s, "10/day", "k")
	want(t, err, "the store was closed")
}

// crowd takes from one key by many stores and goroutines, until it is stopped or denied, and is what
// passed and what may have.
func crowd(t *testing.T, stores []*natsstore.Store, limit string, stop <-chan struct{}) (passed, perhaps int64) {
	t.Helper()
	var all sync.WaitGroup
	var p, m atomic.Int64
	for _, s := range stores {
		for range 8 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
					d, err := take(ctx, s, limit, "k")
					cancel()
					switch {
					case err != nil && strings.Contains(err.Error(), "may have been"):
						m.Add(1)
					case err != nil:
						time.Sleep(time.Millisecond)
					case d.Outcome != weir.Allowed:
						return
					default:
						p.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	return p.Load(), m.Load()
}

// after closes a channel after a time.
func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// TestExact: many goroutines of several stores pass exactly the limit.
func TestExact(t *testing.T) {
	for name, url := range map[string]string{
		"one": "nats://" + natstest.Start(t).Addr, "three": "nats://" + natstest.StartCluster(t, 3).Addrs() + "?replicas=3",
	} {
		stores := []*natsstore.Store{dial(t, url), dial(t, url), dial(t, url), dial(t, url)}
		passes(t, stores[0], "10/day", "first")
		passed, perhaps := crowd(t, stores, "3000/day", after(time.Minute))
		if passed+perhaps < 3000 || passed > 3000 {
			t.Errorf("%s: %d passed, %d perhaps", name, passed, perhaps)
		}
	}
}

// TestLeaderChanges: while the leader of a bucket changes all the time nothing passes beyond the
// limit.
func TestLeaderChanges(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	url := "nats://" + c.Addrs() + "?replicas=3"
	stores := []*natsstore.Store{dial(t, url), dial(t, url), dial(t, url)}
	for _, s := range stores {
		passes(t, s, "1000000/day fixed-window", "k")
	}
	changes := 0
	stop := after(6 * time.Second)
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(400 * time.Millisecond):
				if leader := c.Leader("KV_weir"); leader != nil && leader.StepDown("KV_weir") == nil {
					changes++
				}
			}
		}
	})
	passed, perhaps := crowd(t, stores, "1000000/day fixed-window", stop)
	changing.Wait()
	charged := 1_000_000 - passes(t, stores[0], "1000000/day fixed-window", "k").Remaining - 4
	if charged < passed || charged > passed+perhaps || changes < 3 {
		t.Errorf("%d were charged, %d passed, %d perhaps; %d changes", charged, passed, perhaps, changes)
	}
	t.Logf("%d changes: %d passed, %d perhaps", changes, passed, perhaps)
}

// TestQuorumIsLost: nothing is decided, but by fallbacks where the edge is around the store, and what
// was is not forgotten.
func TestQuorumIsLost(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	s := dial(t, "nats://"+c.Addrs()+"?replicas=3")
	for range 3 {
		passes(t, s, "10/day", "k")
	}
	edged, err := natsstore.Open("nats://"+c.Addrs()+"?replicas=3", natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = edged.Close() })
	edged.Meet(t.Context())
	leader := c.Leader("KV_weir")
	var others natstest.Cluster
	for _, one := range c {
		if one != leader {
			others = append(others, one)
			one.Stop()
		}
	}
	perhaps := int64(0)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		_, err := take(ctx, s, "10/day", "k")
		cancel()
		if err == nil {
			t.Fatal("decided without a quorum")
		}
		if strings.Contains(err.Error(), "may have been") {
			perhaps++
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := s.Ping(t.Context(), 0); err == nil {
		t.Error("a bucket without a quorum answers pings")
	}
	out := make([]weir.Decision, 1)
	ask := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "edged"}, Limit: weir.MustParseLimit("10/day"), Cost: 1}}
	for range 3 {
		begin := time.Now()
		if err := edged.Take(t.Context(), ask, out); err != nil || out[0].Degraded == "" {
			t.Errorf("%+v, %v; want a fallback", out[0], err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("a fallback took %v", took)
		}
	}
	for _, one := range others {
		one.Restart(t)
	}
	if d := passes(t, s, "10/day", "k"); d.Remaining > 6 || d.Remaining < 6-perhaps-2 {
		t.Errorf("after the quorum is back: %+v; %d perhaps", d, perhaps)
	}
}

// TestBucketIsMadeAgain: a bucket that is deleted under load is made again, and the process lives.
// Each time, a key may pass its limit once more, and no more.
func TestBucketIsMadeAgain(t *testing.T) {
	server := natstest.Start(t)
	js := connect(t, server.Addr)
	stores := []*natsstore.Store{dial(t, "nats://"+server.Addr), dial(t, "nats://"+server.Addr), dial(t, "nats://"+server.Addr)}
	const each, deaths = 500, 4
	var passed int64
	for range deaths {
		for _, s := range stores {
			passes(t, s, "10/day", "first") // the bucket is there again
		}
		p, m := crowd(t, stores, fmt.Sprint(each, "/day"), after(200*time.Millisecond))
		passed += p
		if p > each || m > 64 {
			t.Errorf("%d passed, %d perhaps", p, m)
		}
		if err := js.DeleteKeyValue(t.Context(), natsstore.DefaultBucket); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond) // denials are remembered for a second
	}
	deleting := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() {
		_ = js.DeleteKeyValue(context.Background(), natsstore.DefaultBucket)
		close(deleting)
	})
	p, _ := crowd(t, stores, fmt.Sprint(each, "/day"), after(2*time.Second))
	<-deleting
	if p > 2*each || p == 0 {
		t.Errorf("%d passed in two lives of a bucket", p)
	}
	if d, err := take(t.Context(), stores[0], "10/day", "another"); err != nil || d.Remaining != 9 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestUnfitBucket: a bucket that would not keep counts as meant is refused, and stays as it is.
func TestUnfitBucket(t *testing.T) {
	server := natstest.Start(t)
	js := connect(t, server.Addr)
	for says, c := range map[string]jetstream.KeyValueConfig{
		"it keeps a history of 64":                             {History: 64, LimitMarkerTTL: time.Minute},
		"it has no ttl for each message":                       {},
		"it drops all keys after 1h0m0s":                       {TTL: time.Hour, LimitMarkerTTL: time.Minute},
		"it is in memory, and the URL does not say":            {Storage: jetstream.MemoryStorage, LimitMarkerTTL: time.Minute},
		"give Weir a bucket of its own, which it makes itself": {},
	} {
		c.Bucket = bucketOf(says)
		if _, err := js.CreateKeyValue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s := dial(t, "nats://"+server.Addr+"?bucket="+c.Bucket)
		_, err := take(t.Context(), s, "10/day", "k")
		want(t, err, server.Addr, "nothing was decided", "is not fit", says)
	}
	for says, c := range map[string]jetstream.StreamConfig{
		"it keeps the first value of a key": {DiscardNewPerSubject: true},
		"it does not answer writes":         {NoAck: true},
		"it takes messages from another":    {Sources: []*jetstream.StreamSource{{Name: "KV_" + bucketOf("it has no ttl for each message")}}},
		"it keeps keys under other names":   {SubjectTransform: &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}},
	} {
		bucket := bucketOf(says)
		c.Name, c.Subjects = "KV_"+bucket, []string{"$KV." + bucket + ".>"}
		c.MaxMsgsPerSubject, c.Discard, c.AllowMsgTTL = 1, jetstream.DiscardNew, true
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		_, err := take(t.Context(), dial(t, "nats://"+server.Addr+"?bucket="+bucket), "10/day", "k")
		want(t, err, "is not fit", says)
	}
}

// TestBucketMadeByHand: a bucket that leaves markers when a key ends, and keys that are deleted or
// purged by hand. What is gone is as never used.
func TestBucketMadeByHand(t *testing.T) {
	server := natstest.Start(t)
	kv, err := connect(t, server.Addr).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "weir", LimitMarkerTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := dial(t, "nats://"+server.Addr)
	seen := map[string]bool{}
	newKey := func() string {
		all, err := kv.Keys(t.Context(), jetstream.IgnoreDeletes())
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range all {
			if strings.HasPrefix(key, "r.") && !seen[key] {
				seen[key] = true
				return key
			}
		}
		t.Fatalf("no new key in %v", all)
		return ""
	}
	for n, gone := range []func(key string) error{
		func(key string) error { return kv.Delete(t.Context(), key) },
		func(key string) error { return kv.Purge(t.Context(), key) },
		func(key string) error { // its end leaves a marker
			natstest.Until(t, "the key has ended", func() bool {
				_, err := kv.Get(t.Context(), key)
				return errors.Is(err, jetstream.ErrKeyNotFound)
			})
			return nil
		},
	} {
		for i := range int64(3) {
			if d := passes(t, s, "10/2s", fmt.Sprint(n)); d.Remaining < 9-i {
				t.Fatalf("%d: %+v", n, d)
			}
		}
		if err := gone(newKey()); err != nil {
			t.Fatal(err)
		}
		if d := passes(t, s, "10/2s", fmt.Sprint(n)); d.Remaining != 9 {
			t.Errorf("%d: after a key is gone %+v", n, d)
		}
	}
}

// TestForeign: what another program has written under our key is an error, and stays as it was;
// other keys of the bucket harm nobody.
func TestForeign(t *testing.T) {
	server := natstest.Start(t)
	s := dial(t, "nats://"+server.Addr)
	passes(t, s, "10/day", "k")
	kv, err := connect(t, server.Addr).KeyValue(t.Context(), "weir")
	if err != nil {
		t.Fatal(err)
	}
	all, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(all, "other", "r.other", "a.b.c") {
		if _, err := kv.Put(t.Context(), key, []byte("another program's")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the first finds that the key was written
		_, err = take(t.Context(), s, "10/day", "k")
		want(t, err, "nothing was decided", "another program's", "a bucket of its own")
	}
	for _, key := range all {
		if strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("a key in %v", err)
		}
		if e, err := kv.Get(t.Context(), key); err != nil || key != "=probe" && string(e.Value()) != "another program's" {
			t.Errorf("%s: %v, %v", key, e, err)
		}
	}
	if d, err := take(t.Context(), s, "10/day", "k2"); err != nil || d.Remaining != 9 {
		t.Errorf("another key: %+v, %v", d, err)
	}
}

// TestFullBucket: a bucket that may not grow refuses, and the error says why; counts that are there
// go on, and nothing is dropped.
func TestFullBucket(t *testing.T) {
	server := natstest.Start(t)
	if _, err := connect(t, server.Addr).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "weir", MaxBytes: 20_000, LimitMarkerTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	s := dial(t, "nats://"+server.Addr)
	var err error
	n := 0
	for ; n < 1000 && err == nil; n++ {
		_, err = take(t.Context(), s, "1/day", fmt.Sprint(n))
	}
	want(t, err, server.Addr, "nothing was decided", "the bucket is full; raise its max bytes")
	time.Sleep(1100 * time.Millisecond) // denials are remembered for a second
	for i := range n - 1 {
		if d, err := take(t.Context(), s, "1/day", fmt.Sprint(i)); err != nil || d.Outcome == weir.Allowed {
			t.Fatalf("key %d of %d was dropped: %+v, %v", i, n, d, err)
		}
	}
}

// TestLarge: keys of a megabyte count; an item that would be too large is not sent.
func TestLarge(t *testing.T) {
	s := dial(t, "nats://"+natstest.Start(t).Addr)
	for n := range int64(2) {
		for _, end := range []string{"a", "b"} {
			if d := passes(t, s, "10/day", strings.Repeat("k", 1<<20)+end); d.Remaining != 9-n {
				t.Errorf("%+v", d)
			}
		}
	}
	var last error
	for n := 0; n < 1000 && last == nil; n++ {
		ask := []weir.Ask{{State: weir.StateKey{Rule: fmt.Sprintf("r#%d%s", n, strings.Repeat("x", 1014)), Key: "k"}, Limit: weir.MustParseLimit("10/day"), Cost: 1}}
		last = s.Take(t.Context(), ask, make([]weir.Decision, 1))
	}
	want(t, last, "nothing was decided", "fewer limits")
}

// TestRights: the least rights are enough, and each is needed. A user without them is told so, and no
// secret is in what is said.
func TestRights(t *testing.T) {
	rights := []string{"_INBOX.>", "$JS.API.STREAM.INFO.KV_weir", "$JS.API.STREAM.CREATE.KV_weir", "$JS.API.STREAM.MSG.GET.KV_weir", "$KV.weir.>"}
	for without := range len(rights) + 1 {
		allowed := slices.Clone(rights)
		if without < len(rights) {
			allowed[without] = "nothing"
		}
		s := natstest.Start(t, func(o *server.Options) {
			o.Users = []*server.User{{Username: "weir", Password: "secret-word", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: allowed[1:]},
				Subscribe: &server.SubjectPermission{Allow: allowed[:1]},
			}}}
		})
		store := dial(t, "nats://weir:secret-word@"+s.Addr)
		_, err := take(t.Context(), store, "10/day", "k")
		if without == len(rights) {
			if err != nil {
				t.Errorf("the least rights: %v", err)
			}
			continue
		}
		want(t, err, s.Addr, "nothing was decided", "the user has no right to it")
		if without == 0 { // the server says it once for each connection
			time.Sleep(time.Second)
			_, err = take(t.Context(), store, "10/day", "k")
			want(t, err, "the user has no right to it")
		}
		stranger := dial(t, "nats://weir:secret-wrong@"+s.Addr)
		_, refused := take(t.Context(), stranger, "10/day", "k")
		want(t, refused, s.Addr, "check user, password")
		if text := fmt.Sprint(err, refused); strings.Contains(text, "secret") {
			t.Errorf("a secret in %s", text)
		}
	}
}

// TestServerEndsTheConnection: an error after which the client gives up is said, and the store connects
// anew: here a server takes smaller messages than it did when it was connected to. What is too large for
// it then is an error of that descriptor alone.
func TestServerEndsTheConnection(t *testing.T) {
	s := natstest.Start(t)
	store := dial(t, "nats://"+s.Addr)
	ask := make([]weir.Ask, 16)
	for i := range ask {
		rule := fmt.Sprintf("r#%d%s", i, strings.Repeat("x", 1000))
		ask[i] = weir.Ask{State: weir.StateKey{Rule: rule, Key: "large"}, Limit: weir.MustParseLimit("10/day"), Cost: 1}
	}
	out := make([]weir.Decision, len(ask))
	if err := store.Take(t.Context(), ask, out); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(func(o *server.Options) { o.MaxPayload = 8 << 10 }); err != nil {
		t.Fatal(err)
	}
	want(t, store.Take(t.Context(), ask, out), "may have been a charge", "Maximum Payload Violation")
	passes(t, store, "10/day", "small")
	err := store.Take(t.Context(), ask, out)
	want(t, err, "nothing was decided", "raise max_payload")
	if _, alone := errors.AsType[*record.CountError](err); !alone {
		t.Errorf("%v: it is no error of one descriptor", err)
	}
}

// TestOptions: no option of a program keeps the store from coming back.
func TestOptions(t *testing.T) {
	server := natstest.Start(t)
	s, err := natsstore.Dial("nats://"+server.Addr, natsstore.Options{Connect: []nats.Option{
		nats.NoReconnect(), nats.DisconnectErrHandler(nil), nats.ReconnectHandler(nil), nats.ClosedHandler(nil),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	passes(t, s, "10/day", "k")
	server.Stop()
	natstest.Until(t, "takes fail", func() bool {
		_, err := take(t.Context(), s, "10/day", "k")
		return err != nil
	})
	server.Restart(t)
	passes(t, s, "10/day", "k")
}

// TestNoJetStream: a server without it is named, with what to do.
func TestNoJetStream(t *testing.T) {
	s := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	_, err := take(t.Context(), dial(t, "nats://"+s.Addr), "10/day", "k")
	want(t, err, s.Addr, "nothing was decided", "JetStream")
	alone := natstest.Start(t)
	_, err = take(t.Context(), dial(t, "nats://"+alone.Addr+"?replicas=3"), "10/day", "k")
	want(t, err, "write replicas=1, or make the servers a cluster")
	_, err = take(t.Context(), dial(t, "nats://127.0.0.1:1"), "10/day", "k")
	want(t, err, "is nats-server running there?")
}
