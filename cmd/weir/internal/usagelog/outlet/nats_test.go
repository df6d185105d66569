package outlet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/internal/proxytest"
)

// startNATS starts a server in this process, with JetStream in a folder.
func startNATS(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoSigs, o.NoLog = "127.0.0.1", true, true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func natsURL(s *server.Server, user string) string {
	return "nats://" + user + strings.TrimPrefix(s.ClientURL(), "nats://") + "/weir.usage"
}

// makeStream makes the stream of the subject weir.usage.
func makeStream(t *testing.T, url string) {
	t.Helper()
	n, err := broker.ParseNATS(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := n.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "USAGE", Subjects: []string{"weir.>"}}); err != nil {
		t.Fatal(err)
	}
}

// TestNATSRestarts: while the server is away, and before there is a stream, no sum is lost; copies are
// dropped by the stream.
func TestNATSRestarts(t *testing.T) {
	t.Parallel()
	o := server.Options{StoreDir: t.TempDir(), Port: porttest.Port(t)}
	s := startNATS(t, o)
	url := natsURL(s, "")
	if err := Read(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), `find the stream of "weir.usage"`) {
		t.Errorf("reading no stream: %v", err)
	}
	l, said := open(t, url)
	l.Start()
	stop := counting(l)
	eventually(t, "the log says what is missing", func() bool { return strings.Contains(said.texts(), `no stream has the subject "weir.usage"; make one`) })
	makeStream(t, url)
	eventually(t, "it is kept", func() bool { return l.Stats().Kept > 0 })
	s.Shutdown()
	s.WaitForShutdown()
	eventually(t, "the log says that nobody answers", func() bool { return strings.Contains(said.texts(), "no server answers") })
	time.Sleep(2 * time.Second)
	startNATS(t, o)
	time.Sleep(1500 * time.Millisecond)
	want := stop()
	end(t, l)
	if foreign, twice := audit(t, read(t, url), want); foreign != 0 || twice != 0 {
		t.Errorf("%d foreign, %d twice: the stream has their ids", foreign, twice)
	}
}

// TestNATSRights: a user with the wrong password, or without the right to publish, is told so.
func TestNATSRights(t *testing.T) {
	t.Parallel()
	s := startNATS(t, server.Options{Users: []*server.User{
		{Username: "ann", Password: "p@w"},
		{Username: "eve", Password: "p@w", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"weir.>"}}}},
	}})
	makeStream(t, natsURL(s, "ann:p%40w@"))
	for user, says := range map[string]string{"ann:p%40w@": "", "ann:wrong@": "uthorization", "eve:p%40w@": "ermissions"} {
		l, said := open(t, natsURL(s, user))
		l.Start()
		stop := counting(l)
		if says == "" {
			eventually(t, "it is kept", func() bool { return l.Stats().Kept > 0 })
			want := stop()
			end(t, l)
			audit(t, read(t, natsURL(s, user)), want)
			continue
		}
		eventually(t, user+" is told "+says, func() bool { return strings.Contains(said.texts(), says) })
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := l.Stop(ctx); err == nil {
			t.Error("it was kept after all")
		}
		cancel()
	}
}

// TestNATSPayload: while the servers take smaller messages than the daemon sends the log says what to do,
// also where they end the connection for it, and nothing is lost.
func TestNATSPayload(t *testing.T) {
	t.Parallel()
	o := server.Options{Host: "127.0.0.1", Port: porttest.Port(t), JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}
	s := startNATS(t, o)
	url := natsURL(s, "")
	makeStream(t, url)
	l, said := open(t, url)
	l.Start()
	stop := counting(l)
	eventually(t, "it is kept", func() bool { return l.Stats().Kept > 0 })
	for _, way := range []struct {
		payload int32
		says    string
	}{{256, "Maximum Payload Violation"}, {1 << 20, "<nil>]"}} {
		changed := o
		changed.MaxPayload = way.payload
		if err := s.ReloadOptions(&changed); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the log says "+way.says, func() bool { return strings.Contains(said.texts(), way.says) })
	}
	want := stop()
	end(t, l)
	audit(t, read(t, url), want)
}

// TestNATSSilent: a connection that has gone silent is left soon, and nothing is lost.
func TestNATSSilent(t *testing.T) {
	t.Parallel()
	s := startNATS(t, server.Options{})
	makeStream(t, natsURL(s, ""))
	var silent atomic.Bool
	addr := proxytest.Start(t, s.Addr().String(), func(_ bool, b []byte) (int, bool) {
		if silent.Load() {
			return 0, false
		}
		return len(b), false
	})
	l, said := open(t, "nats://"+addr+"/weir.usage")
	l.Start()
	stop := counting(l)
	eventually(t, "it is kept", func() bool { return l.Stats().Kept > 0 })
	connections := func() uint64 {
		v, err := s.Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.TotalConnections
	}
	before := connections()
	silent.Store(true)
	eventually(t, "it connects anew", func() bool { return connections() > before })
	eventually(t, "the log says whose answer is missing", func() bool { return strings.Contains(said.texts(), "has not acknowledged a message in time") })
	silent.Store(false)
	eventually(t, "it is logged again", func() bool { return strings.HasSuffix(said.texts(), "<nil>]") })
	want := stop()
	end(t, l)
	audit(t, read(t, natsURL(s, "")), want)
}

// TestNATSLong: a long log is read in order, and no further when its reader has had enough.
func TestNATSLong(t *testing.T) {
	t.Parallel()
	s := startNATS(t, server.Options{})
	url := natsURL(s, "")
	makeStream(t, url)
	n, err := broker.ParseNATS(url)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := openNATS(n)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	const all = 1000
	for i := range all {
		id := fmt.Sprintf("n/i/%d/0", i)
		if err := sink.Append(t.Context(), usagelog.Batch{ID: id, Node: "n/i", Lines: []byte(id + "\n")}); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, url)
	if len(got) != all || !slices.IsSortedFunc(got, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) {
		t.Errorf("%d of %d were read: %q …", len(got), all, got[:min(len(got), 20)])
	}
	ctx, enough := context.WithCancel(t.Context())
	lines := 0
	err = Read(ctx, url, func([]byte) error {
		lines++
		enough()
		return nil
	})
	if !errors.Is(err, context.Canceled) || lines > 2*pulled {
		t.Errorf("after %d lines: %v", lines, err)
	}
}

// TestNATSCopies: the same batch sent twice is there once.
func TestNATSCopies(t *testing.T) {
	t.Parallel()
	s := startNATS(t, server.Options{})
	url := natsURL(s, "")
	makeStream(t, url)
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l, _ := open(t, url)
	l.Start()
	stop := counting(l)
	eventually(t, "it is kept", func() bool { return l.Stats().Kept > 0 })
	want := stop()
	end(t, l)
	// The last batch again, as after an answer that was lost.
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "USAGE")
	if err != nil {
		t.Fatal(err)
	}
	last, err := stream.GetLastMsgForSubject(t.Context(), "weir.usage")
	if err != nil {
		t.Fatal(err)
	}
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: last.Subject, Header: last.Header, Data: last.Data})
	if err != nil || !ack.Duplicate {
		t.Errorf("%+v, %v: want a duplicate", ack, err)
	}
	if _, twice := audit(t, read(t, url), want); twice != 0 {
		t.Errorf("%d twice", twice)
	}
}
