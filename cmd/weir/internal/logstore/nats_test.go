package logstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/proxytest"
)

// streamURL is that of the stream weir.
func streamURL(servers string) string { return "nats://" + servers + "?log=weir" }

// streamOf is a client of the stream that is not Weir's.
func streamOf(t testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	p, err := parseStream(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := p.servers.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// publish writes texts into the stream.
func publish(t testing.TB, url string, texts ...string) {
	t.Helper()
	_, js := streamOf(t, url)
	for _, text := range texts {
		if _, err := js.Publish(t.Context(), "weir", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// load asks each store for events of a key, until it is stopped, and says how many passed.
func load(t *testing.T, limit, key string, stop <-chan struct{}, stores ...*Store) int64 {
	t.Helper()
	l := weir.MustParseLimit(limit)
	var passed atomic.Int64
	var running sync.WaitGroup
	for _, s := range stores {
		running.Go(func() {
			out := make([]weir.Decision, 1)
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "api/user", Key: key}, Limit: l, Cost: 1}}, out)
				if err == nil && out[0].Outcome == weir.Allowed {
					passed.Add(1)
				} else if err != nil && !errors.Is(err, weir.ErrAway) {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	return passed.Load()
}

// TestStreamLeader: while a stream of three replicas changes its leader, and servers die and come back,
// nothing is forgotten, also not by processes that start again.
func TestStreamLeader(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	url := streamURL(c.Addrs()) + "&replicas=3"
	stores := []*Store{open(t, url, "a"), open(t, url, "b"), open(t, url, "c")}
	const limit = "1000000/h fixed-window"
	stop, changes := make(chan struct{}), 0
	var changing sync.WaitGroup
	changing.Go(func() {
		defer close(stop)
		for round := range 8 {
			time.Sleep(500 * time.Millisecond)
			leader := c.Leader("weir")
			switch {
			case leader == nil:
			case round%4 == 3: // it dies
				leader.Stop()
				time.Sleep(time.Second)
				leader.Restart(t)
				changes++
			case leader.StepDown("weir") == nil:
				changes++
			}
		}
	})
	passed := load(t, limit, "k", stop, stores...)
	changing.Wait()
	for _, s := range stores {
		natstest.Until(t, "all know of all", func() bool { return s.away() == nil && used(t, s, limit, "k") == passed })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if st := s.Stats(); st.Foreign+st.Lost+st.Dropped != 0 {
			t.Errorf("%+v", st)
		}
	}
	if n := used(t, open(t, url, "a"), limit, "k"); n != passed {
		t.Errorf("one that started again knows of %d, want %d", n, passed)
	}
	t.Logf("%d passed, %d changes", passed, changes)
}

// TestStreamQuorum: while most servers are away the store decides nothing; what it could not append is
// appended when they are back.
func TestStreamQuorum(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	url := streamURL(c.Addrs()) + "&replicas=3"
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	eventually(t, "b knows", func() bool { return used(t, b, limit, "k") == 10 })
	c[0].Stop()
	c[1].Stop()
	take(t, a, limit, "k", 7)
	eventually(t, "nothing is decided", func() bool { return a.away() != nil && b.away() != nil })
	if err := a.away(); !errors.Is(err, weir.ErrAway) {
		t.Error(err)
	}
	time.Sleep(3 * time.Second)
	if a.away() == nil {
		t.Error("it decides without a quorum")
	}
	c[0].Restart(t)
	c[1].Restart(t)
	natstest.Until(t, "both decide, and b knows of all", func() bool {
		return a.away() == nil && b.away() == nil && used(t, b, limit, "k") == 17
	})
	if n := used(t, open(t, url, "c"), limit, "k"); n != 17 {
		t.Errorf("one that starts knows of %d, want 17", n)
	}
}

// TestStreamAway: a server that dies, and one that freezes: the store says so within 2.5 s, and goes on
// when it is back; nothing is forgotten, and nobody waits.
func TestStreamAway(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	var frozen atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(_ bool, b []byte) (int, bool) {
		for frozen.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		return len(b), false
	})
	url := streamURL(addr)
	a, b := open(t, url, "a"), open(t, streamURL(server.Addr), "b")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	server.Stop()
	take(t, a, limit, "k", 7) // it does not know yet that nobody hears it
	eventually(t, "a decides nothing", func() bool { return errors.Is(a.Ping(t.Context(), 0), weir.ErrAway) && a.Stats().Lag > time.Second })
	time.Sleep(time.Second)
	server.Restart(t)
	eventually(t, "both decide again, and b knows of all", func() bool {
		return a.away() == nil && b.away() == nil && used(t, b, limit, "k") == 17
	})

	frozen.Store(true)
	begin := time.Now()
	take(t, a, limit, "k", 3)
	for a.away() == nil && time.Since(begin) < 5*time.Second {
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(begin); took > bounds.LogWorst {
		t.Errorf("that the server is frozen was noticed after %v", took)
	}
	time.Sleep(7 * time.Second) // the connection is given up meanwhile
	frozen.Store(false)
	eventually(t, "a decides again, and b knows of all", func() bool { return a.away() == nil && used(t, b, limit, "k") == 20 })
}

// TestStreamStuck: a server that takes no bytes keeps nobody waiting for long.
func TestStreamStuck(t *testing.T) {
	t.Parallel()
	var frozen atomic.Bool
	p, err := parseStream(streamURL(proxytest.Start(t, natstest.Start(t).Addr, func(_ bool, b []byte) (int, bool) {
		for frozen.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		return len(b), false
	})))
	if err != nil {
		t.Fatal(err)
	}
	log, err := openStream(p)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	frozen.Store(true)
	defer frozen.Store(false)
	longest, value := time.Duration(0), []byte(long(4096))
	for range maxInFlight {
		begin := time.Now()
		log.send(0, nil, value, func(error) {})
		longest = max(longest, time.Since(begin))
	}
	if longest > 4*writeTimeout {
		t.Errorf("a message waited %v", longest)
	}
}

// TestStreamGone: a stream that is deleted is made again, and an operator hears of it; those that run know
// what was used. A purge is forgotten by those that start only.
func TestStreamGone(t *testing.T) {
	t.Parallel()
	url := streamURL(natstest.Start(t).Addr)
	_, js := streamOf(t, url)
	said := new(notes)
	a, b := dial(t, url, "a"), open(t, url, "b")
	a.Start(time.Hour, slog.New(slog.NewTextHandler(said, nil)))
	caught(t, a)
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	eventually(t, "b knows", func() bool { return used(t, b, limit, "k") == 10 })
	weirs, err := js.Stream(t.Context(), "weir")
	if err != nil {
		t.Fatal(err)
	}
	if err := weirs.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	take(t, a, limit, "k", 1)
	eventually(t, "b knows after a purge", func() bool { return used(t, b, limit, "k") == 11 })
	late := new(notes)
	c := dial(t, url, "c")
	c.Start(time.Hour, slog.New(slog.NewTextHandler(late, nil)))
	caught(t, c)
	if n := used(t, c, limit, "k"); n != 1 || !late.has("what was used before is forgotten") {
		t.Errorf("one that starts after a purge: %d, %s", n, late.text.String())
	}
	if err := js.DeleteStream(t.Context(), "weir"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is noticed", func() bool { return said.has("the log was deleted") })
	eventually(t, "all decide again", func() bool { return a.away() == nil && b.away() == nil && c.away() == nil })
	take(t, a, limit, "k", 4)
	eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == 15 })
}

// TestStreamForgets: a server that comes back with an older disk numbers messages as it did before. What is
// appended then is read.
func TestStreamForgets(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	disk := server.Disk()
	url := streamURL(server.Addr)
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	eventually(t, "b knows", func() bool { return used(t, b, limit, "k") == 10 })
	server.Stop()
	old := filepath.Join(t.TempDir(), "old")
	if err := os.CopyFS(old, os.DirFS(disk)); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	eventually(t, "a decides", func() bool { return a.away() == nil })
	take(t, a, limit, "lost", 5)
	time.Sleep(2 * time.Second) // beats
	server.Stop()
	if err := errors.Join(os.RemoveAll(disk), os.CopyFS(disk, os.DirFS(old))); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	eventually(t, "both decide", func() bool { return a.away() == nil && b.away() == nil })
	take(t, a, limit, "k", 2)
	eventually(t, "b knows of what came then", func() bool { return used(t, b, limit, "k") == 12 })
}

// TestStreamRenumbered: where other messages have the numbers of those that were read, all that came later are
// read.
func TestStreamRenumbered(t *testing.T) {
	t.Parallel()
	url := streamURL(natstest.Start(t).Addr)
	p, err := parseStream(url)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := openStream(p)
	if err != nil {
		t.Fatal(err)
	}
	log := opened.(*stream)
	defer log.close()
	read := func(texts string) {
		t.Helper()
		var got strings.Builder
		eventually(t, "all is read: "+texts, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			batches, _ := log.poll(ctx) // an error is one of before
			for _, b := range batches {
				for _, m := range b.messages {
					got.WriteString(string(m.value))
				}
			}
			return len(got.String()) >= len(texts)
		})
		if got.String() != texts {
			t.Errorf("read %s, want %s", got.String(), texts)
		}
	}
	if err := log.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, url, "a", "b")
	if _, _, err := log.begin(t.Context(), time.Now().Add(-time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	publish(t, url, "c", "d")
	read("abcd")
	log.leave()
	publish(t, url, "e")
	read("e")
	log.leave()
	_, js := streamOf(t, url)
	for _, texts := range []string{"fg", "hijklmnop"} { // fewer than were read, and more
		if err := js.DeleteStream(t.Context(), "weir"); err != nil {
			t.Fatal(err)
		}
		log.leave()
		if err := log.make(t.Context()); err != nil {
			t.Fatal(err)
		}
		publish(t, url, strings.Split(texts, "")...)
		read(texts)
	}
}

// TestStreamSettings: a stream that is there already is looked at.
func TestStreamSettings(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	for name, at := range map[string]struct {
		change func(*jetstream.StreamConfig)
		fault  bool
		says   string
	}{
		"bare":     {func(*jetstream.StreamConfig) {}, false, "has one replica"},
		"short":    {func(c *jetstream.StreamConfig) { c.MaxAge = time.Minute }, false, "keeps messages for 1m0s"},
		"memory":   {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, false, "is in memory"},
		"new":      {func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1<<20, jetstream.DiscardNew }, false, "takes nothing when it is full"},
		"old":      {func(c *jetstream.StreamConfig) { c.MaxMsgs = 100_000 }, false, "drops old messages when it is full"},
		"small":    {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }, false, "refuses messages of more than 1000 bytes"},
		"subjects": {func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "other") }, false, "of other subjects"},
		"last":     {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, true, "keeps 1 messages of a subject"},
		"queue":    {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, true, "drops messages that were read"},
		"silent":   {func(c *jetstream.StreamConfig) { c.NoAck = true }, true, "acknowledges nothing"},
		"foreign":  {func(c *jetstream.StreamConfig) { c.Subjects = []string{"elsewhere"} }, true, "is it a subject of the stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "nats://" + s.Addr + "?log=" + name
			_, js := streamOf(t, url)
			c := jetstream.StreamConfig{Name: name, Subjects: []string{name}}
			at.change(&c)
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			said := new(notes)
			store := dial(t, url, "a")
			store.Start(time.Hour, slog.New(slog.NewTextHandler(said, nil)))
			var err error
			if at.fault {
				eventually(t, "the fault is found", func() bool { err = store.away(); return strings.Contains(fmt.Sprint(err), at.says) })
			} else {
				caught(t, store)
			}
			x, odd := Examine(t.Context(), url)
			if odd != nil {
				t.Fatal(odd)
			}
			told := fmt.Sprint(x.Findings)
			switch {
			case at.fault && (err == nil || !strings.Contains(err.Error(), at.says) || !strings.Contains(told, at.says) || len(x.Lags) != 0):
				t.Errorf("%v; doctor: %s", err, told)
			case !at.fault && (!said.has(at.says) || !strings.Contains(told, at.says) || len(x.Lags) == 0):
				t.Errorf("%s; doctor: %+v", said.text.String(), x)
			}
		})
	}
}

// TestStreamUnfit: one that is not there, and one of too few replicas.
func TestStreamUnfit(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	x, err := Examine(t.Context(), "nats://"+s.Addr+"?log=none")
	if err != nil || len(x.Findings) != 1 || !strings.Contains(x.Findings[0].Text, "nats stream add none ") || x.Partitions != 0 {
		t.Errorf("%+v, %v", x, err)
	}
	few := open(t, "nats://"+s.Addr+"?log=bare", "a")
	few.stop()
	more := dial(t, "nats://"+s.Addr+"?log=bare&replicas=3", "a")
	more.Start(0, logOf(t))
	eventually(t, "fewer replicas are refused", func() bool { return strings.Contains(fmt.Sprint(more.away()), "has replicas: 1, and the URL says 3") })
}

// TestStreamRights: the least rights are enough, and each is needed. A user without them is told so, and no
// secret is in what is said.
func TestStreamRights(t *testing.T) {
	t.Parallel()
	rights := []string{
		"weir", "$JS.API.STREAM.INFO.weir", "$JS.API.CONSUMER.CREATE.weir.>", "$JS.API.CONSUMER.MSG.NEXT.weir.>",
		"$JS.API.STREAM.CREATE.weir",
	}
	for without := range len(rights) + 1 {
		allowed := slices.Clone(rights)
		if without < len(rights) {
			allowed = slices.Delete(allowed, without, without+1)
		}
		s := natstest.Start(t, func(o *server.Options) {
			o.Users = []*server.User{{Username: "weir", Password: "secret-word", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: allowed},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}}}
		})
		if without == len(rights) {
			take(t, open(t, streamURL("weir:secret-word@"+s.Addr), "a"), "10/h", "k", 1)
			continue
		}
		for user, says := range map[string]string{"weir:secret-word@": "give it the rights", "weir:secret-wrong@": "check user, password", "": "check user, password"} {
			store := dial(t, streamURL(user+s.Addr), "a")
			store.Start(0, logOf(t))
			eventually(t, rights[without]+": "+says, func() bool {
				err := store.away()
				return errors.Is(err, weir.ErrAway) && strings.Contains(err.Error(), says) && !strings.Contains(err.Error(), "secret")
			})
			store.stop()
		}
	}
}

// TestStreamAbsent: servers that can't have a stream are told with what to do.
func TestStreamAbsent(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		streamURL(natstest.Start(t, func(o *server.Options) { o.JetStream = false }).Addr): "turn JetStream on",
		streamURL(natstest.Start(t).Addr) + "&replicas=3":                                  "replicas > 1 not supported",
		streamURL("127.0.0.1:1"): "is nats-server running there?",
	} {
		s := dial(t, url, "a")
		s.Start(0, logOf(t))
		eventually(t, says, func() bool { return strings.Contains(fmt.Sprint(s.away()), says) })
	}
}

// TestStreamURL: what can't be meant is refused with what to write, and without a secret.
func TestStreamURL(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"nats://h?log=weir": "",
		"nats://u:secret@h:4222,i?replicas=5&log=W_e-1&node=x&tls=1": "",
		"nats://h?log":                     "option log has no value",
		"nats://h?log=":                    "option log has no value",
		"nats://h?log=a.b":                 "is no name of a stream",
		"nats://h?log=a%20b":               "is no name of a stream",
		"nats://h?log=" + long(65):         "is no name of a stream",
		"nats://h?log=a&log=b":             "given 2 times",
		"nats://h?log=a&replicas=6":        `replicas: "6" is not 1…5`,
		"nats://h?log=a&bucket=b":          `unknown option "bucket"; the options are log, replicas, node, tls`,
		"nats://u:se?cret@h?log=a":         "there is an @ behind the host",
		"nats://h?log=a&node=" + long(256): "at most 255 bytes",
		"nats://h?log=a&creds=/nobody":     "creds: ",
	} {
		_, err := Dial(url)
		if !Is(url) || says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "cret") {
			t.Errorf("a secret in %v", err)
		}
	}
	for _, url := range []string{"nats://h", "nats://h?bucket=log", "redis://h?log=a", "nats://h/log=a"} {
		if Is(url) {
			t.Errorf("%s is no log", url)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// TestStreamGap: a message that was lost on its way is noticed by the next.
func TestStreamGap(t *testing.T) {
	t.Parallel()
	r := newStreamReader(nil)
	for _, number := range []uint64{1, 2, 4} {
		r.arrived <- arrival{message: message{offset: int64(number) + 10}, number: number, end: 15}
	}
	messages, end, err := r.poll(t.Context())
	if !errors.Is(err, errGap) || len(messages) != 2 || messages[1].offset != 12 || end != 15 {
		t.Errorf("%+v, %d, %v", messages, end, err)
	}
}

// TestStreamResumes: a reader that fails is replaced by one that reads on where it was.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	url := streamURL(natstest.Start(t).Addr)
	a, b := open(t, url, "a"), open(t, url, "b")
	_, js := streamOf(t, url)
	weirs, err := js.Stream(t.Context(), "weir")
	if err != nil {
		t.Fatal(err)
	}
	const limit = "100000/h fixed-window"
	for range 20 {
		names := weirs.ConsumerNames(t.Context())
		take(t, a, limit, "k", 10)
		for name := range names.Name() {
			if err := js.DeleteConsumer(t.Context(), "weir", name); err != nil {
				t.Log(err) // it is gone already
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == 200 })
	st := b.Stats()
	is, err := weirs.Info(t.Context())
	if err != nil || st.Lost != 0 || st.Foreign != 0 || st.Read > int64(is.State.LastSeq) {
		t.Errorf("%+v of %+v, %v", st, is, err)
	}
}

// TestStreamOver: a client that has given up is replaced.
func TestStreamOver(t *testing.T) {
	t.Parallel()
	url := streamURL(natstest.Start(t).Addr)
	a, b := open(t, url, "a"), open(t, url, "b")
	take(t, a, "1000/h", "k", 10)
	a.log.Load().eventLog.(*stream).conn.Close()
	eventually(t, "it is noticed", func() bool { return a.away() != nil })
	eventually(t, "a decides again", func() bool { return a.away() == nil })
	take(t, a, "1000/h", "k", 10)
	eventually(t, "b knows of all", func() bool { return used(t, b, "1000/h", "k") >= 19 })
}

// TestStreamClosed: what is sent to a log that is closed is told once, and not appended.
func TestStreamClosed(t *testing.T) {
	t.Parallel()
	p, err := parseStream(streamURL(natstest.Start(t).Addr))
	if err != nil {
		t.Fatal(err)
	}
	log, err := openStream(p)
	if err != nil {
		t.Fatal(err)
	}
	told, sent := atomic.Int64{}, int64(0)
	send := func() { sent++; log.send(0, nil, []byte("{}"), func(error) { told.Add(1) }) }
	for range 1000 {
		send()
	}
	log.close()
	send()
	time.Sleep(patience + time.Second)
	if n := told.Load(); n != sent {
		t.Errorf("%d were sent, and %d are told", sent, n)
	}
}
