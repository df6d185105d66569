package xds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
	"github.com/weir-limit/weir/internal/certtest"
)

// TestBadURLs: what can't be meant is refused before anything is connected to, with what to write, and without what may be secret.
func TestBadURLs(t *testing.T) {
	pair := certtest.NewCA(t).Issue(t, "weir")
	cert, _ := pair.Files(t)
	for url, want := range map[string]string{
		"xds://":                                         "no host:port",
		"xds://host":                                     "no host:port",
		"xds://host:0?node=a":                            "no port number",
		"xds://host:18001":                               "node is missing",
		"xds://host:18001?nod=a":                         `unknown option "nod"`,
		"xds://host:18001?node=a&node=b":                 "given 2 times",
		"xds://host:18001?node=":                         "has no value",
		"xds://host:18001/path?node=a":                   "has no path",
		"xds://u:secret@host:1?node=a":                   "no user and password",
		"xds://host:18001?node=a#b":                      "can't be read",
		"xds://host:18001?node=a&tls=2":                  "tls=2: write tls=true",
		"xds://host:18001?node=a&wait=5":                 "wait=5 is no time",
		"xds://host:18001?node=a&wait=1h":                "no time up to 10m",
		"xds://host:18001?node=a&force-start=maybe":      "force-start=maybe: write",
		"xds://host:18001?node=a&tls=false&ca=" + cert:   "tls=false excludes ca",
		"xds://host:18001?node=a&cert=" + cert:           "go together",
		"xds://host:18001?node=a&key=" + cert:            "go together",
		"xds://host:18001?node=a&ca=/nowhere":            "--rules: ca /nowhere: no such file",
		"xds://host:18001?node=a&metadata=secret":        "list of KEY:VALUE",
		"xds://host:18001?node=a&metadata=grpc-a:secret": "no such pair",
		"xds://host:18001?node=a&metadata=a%20b:secret":  "no such pair",
		"xds://host:18001?node=a&metadata=a:secret%0Ab":  "no such pair",
		"xds://host:18001?node=a&node-metadata=secret":   "list of KEY=VALUE",
	} {
		_, err := Open(url, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", url, err, want)
		}
	}
}

// TestMetadata: the control plane hears the metadata of the call and of the node.
func TestMetadata(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	f := follow(t, c, "metadata=authorization:Bearer%20a,x-team:b", "node-metadata=zone=c")
	f.want("shop/user 5/min fixed-window", "")
	if got := f.s.place.headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer a" {
		t.Error(got)
	}
	xdstest.Soon(t, func() string {
		if q := c.Last(); q.GetNode().GetMetadata().GetFields()["zone"].GetStringValue() != "c" {
			return q.String()
		}
		return ""
	})
}

// TestCertificates: both sides show theirs, new ones are taken for the next stream without a restart, and what is wrong with any is told.
func TestCertificates(t *testing.T) {
	ca, other := certtest.NewCA(t), certtest.NewCA(t)
	server := func(p certtest.Pair, clients *x509.CertPool) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{p.TLS(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, NextProtos: []string{"h2"}}
	}
	cert, key := ca.Issue(t, "weir").Files(t)
	caFile := certtest.File(t, "ca.pem", ca.PEM)
	c := xdstest.Start(t, server(ca.Issue(t, "envoy-gateway"), ca.Pool()))
	c.Set(xdstest.Limit("shop", 5))
	shows := []string{"ca=" + caFile, "cert=" + cert, "key=" + key, "server-name=envoy-gateway"}
	f := follow(t, c, shows...)
	f.want("shop/user 5/min fixed-window", "")

	refused := func(want string, options ...string) {
		t.Helper()
		// Of a certificate that is refused one try may hear, and another see that the connection is gone.
		follow(t, c, append(slices.Clone(options), "wait=1ms", "force-start=true")...).want("", want)
	}
	refused("if it wants TLS, give tls=true or ca=FILE")
	refused("give the CA of its certificate by ca=FILE", "tls=true")
	refused("give a name that is in its certificate by server-name=NAME", append(slices.Clone(shows[:3]), "server-name=other")...)
	refused("it wants a certificate; give cert=FILE and key=FILE", shows[0], shows[3])
	strange, strangeKey := other.Issue(t, "weir").Files(t)
	refused("it does not believe the certificate of cert=FILE", shows[0], "cert="+strange, "key="+strangeKey, shows[3])

	// All certificates are of another CA from now on.
	c.Stop()
	c.TLS = server(other.Issue(t, "envoy-gateway"), other.Pool())
	c.Start()
	c.Set(xdstest.Limit("shop", 6))
	f.want("shop/user 5/min fixed-window", "signed by unknown authority")
	fresh := other.Issue(t, "weir")
	certtest.Write(t, caFile, other.PEM)
	certtest.Write(t, cert, fresh.Certificate)
	certtest.Write(t, key, fresh.Key)
	f.want("shop/user 6/min fixed-window", "")

	// One that has expired is told, and taken no longer.
	old := other.IssueFrom(t, time.Now().Add(-48*time.Hour), 24*time.Hour, "weir")
	certtest.Write(t, cert, old.Certificate)
	certtest.Write(t, key, old.Key)
	f.s.Reload()
	f.want("shop/user 6/min fixed-window", "it expired on")

	c.Stop()
	c.TLS = server(other.IssueFrom(t, time.Now().Add(-48*time.Hour), 24*time.Hour, "envoy-gateway"), other.Pool())
	c.Start()
	certtest.Write(t, cert, fresh.Certificate)
	certtest.Write(t, key, fresh.Key)
	f.want("shop/user 6/min fixed-window", "its certificate, or the clock of this machine, is wrong")
}

// scripted is a control plane that does what a function says on each stream.
type scripted struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	stream func(discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error
}

func (s *scripted) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.stream(stream)
}

func script(t testing.TB, stream func(discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error) *xdstest.Control {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	if stream != nil {
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, &scripted{stream: stream})
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return &xdstest.Control{Address: l.Addr().String()}
}

// answer makes an answer of configs in text.
func answer(t testing.TB, version string, configs ...string) *discoveryv3.DiscoveryResponse {
	t.Helper()
	a := &discoveryv3.DiscoveryResponse{VersionInfo: version, Nonce: "n" + version, TypeUrl: typeURL}
	for _, text := range configs {
		packed, err := anypb.New(xdstest.Config(t, text))
		if err != nil {
			t.Fatal(err)
		}
		a.Resources = append(a.Resources, packed)
	}
	return a
}

// TestStrangeServers: each server that is no control plane, or a bad one, is named by what is wrong with it.
func TestStrangeServers(t *testing.T) {
	good := answer(t, "1", xdstest.Limit("shop", 5))
	huge := answer(t, "1", xdstest.Limit("shop", 5))
	huge.Resources[0].Value = make([]byte, 100<<20)
	other := answer(t, "1")
	packed, err := anypb.New(wrapperspb.String("x"))
	if err != nil {
		t.Fatal(err)
	}
	other.Resources = append(other.Resources, packed)
	broken := answer(t, "1", xdstest.Limit("shop", 5))
	broken.Resources[0].Value = []byte{0xFF}
	says := func(a *discoveryv3.DiscoveryResponse) func(discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		return func(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
			if err := s.Send(a); err != nil {
				return err
			}
			<-s.Context().Done()
			return nil
		}
	}
	clusters := answer(t, "1")
	clusters.TypeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	deaf, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	for name, of := range map[string]struct {
		at   *xdstest.Control
		want string
	}{
		"no discovery": {script(t, nil), "it is no control plane"},
		"huge":         {script(t, says(huge)), "an answer has at most 67108864 bytes; give this node fewer rules"},
		"another type": {script(t, says(clusters)), "which nobody asked for; is it a control plane for rate limits?"},
		"odd resource": {script(t, says(other)), "only " + typeURL + " was asked for"},
		"broken":       {script(t, says(broken)), "can't be decoded"},
		"silent": {script(t, func(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
			<-s.Context().Done()
			return nil
		}), `is "envoy-ratelimit" the node that it knows?`},
		"hangs up":      {script(t, func(discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error { return nil }), "it has ended the stream"},
		"a web server":  {&xdstest.Control{Address: web.Listener.Addr().String()}, "it answers, but not HTTP/2"},
		"nobody":        {&xdstest.Control{Address: "127.0.0.1:1"}, "connection refused"},
		"unknown host":  {&xdstest.Control{Address: "nosuch.invalid:1"}, "nosuch.invalid"},
		"a good server": {script(t, says(good)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := follow(t, of.at, "wait=1ms", "force-start=true", "silence=50ms")
			active := ""
			if of.want == "" {
				active = "shop/user 5/min fixed-window"
			}
			f.want(active, of.want)
		})
	}
	if _, err := tryFollow(t, &xdstest.Control{Address: deaf.Addr().String()}, "wait=50ms"); err == nil || !strings.Contains(err.Error(), "it has not sent any rules within 50ms") {
		t.Error("a server that takes connections and says nothing:", err)
	}
}

// TestSilence: a control plane that takes the stream and says nothing is told of while old rules stay.
func TestSilence(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	f := follow(t, c, "silence=20ms")
	c.Stop()
	f.want("shop/user 5/min fixed-window", "connection refused")
	c.Start()
	f.want("shop/user 5/min fixed-window", "sent nothing for 20ms")
	c.Set(xdstest.Limit("shop", 5))
	f.want("shop/user 5/min fixed-window", "")
}

// TestFlood: of answers that come faster than they are read, the last counts, and each one that was read is acknowledged.
func TestFlood(t *testing.T) {
	const n = 2000
	acks := make(chan string, 2*n)
	c := script(t, func(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		go func() {
			for {
				q, err := s.Recv()
				if err != nil {
					return
				}
				acks <- q.GetResponseNonce()
			}
		}()
		for i := 1; i <= n; i++ {
			if err := s.Send(answer(t, fmt.Sprint(i), xdstest.Limit("shop", i))); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	})
	f := follow(t, c)
	f.want(fmt.Sprintf("shop/user %d/min fixed-window", n), "")
	xdstest.Soon(t, func() string {
		for {
			select {
			case nonce := <-acks:
				if nonce == fmt.Sprintf("n%d", n) {
					return ""
				}
			default:
				return "the last answer was not acknowledged"
			}
		}
	})
	if s := f.s.Status(); s.Accepted+s.Superseded < n || s.Superseded == 0 {
		t.Errorf("%+v", s)
	}
}

// TestRefusedAgain: a control plane that sends what was refused again at once, as the library does, is not asked in a tight circle.
func TestRefusedAgain(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	f := follow(t, c, "refuse=1000h") // tests end before
	xdstest.Soon(t, func() string {
		if f.s.Status().Accepted != 2 {
			return "not watched"
		}
		return ""
	})
	c.Set(`domain: "shop" descriptors {}`)
	f.want("shop/user 5/min fixed-window", "empty key")
	xdstest.Soon(t, func() string {
		if c.Responses() < 4 { // to Load, to Watch, and twice the bad one
			return "it was not sent again"
		}
		return ""
	})
	if now := f.s.Status(); now.Refused != 1 {
		t.Errorf("refused %d times", now.Refused)
	}
}

// TestStuck: one that takes nothing any more is left.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		s := &stream{s: &Source{place: &place{}}, end: end, ads: stuck{ctx: ctx}}
		began := time.Now()
		if s.send("n", nil); !errors.Is(context.Cause(ctx), errStuck) || time.Since(began) != sendTime {
			t.Error(context.Cause(ctx), time.Since(began))
		}
	})
}

// TestNoCache: where there is no folder for the last good copy, that is told, and none is kept anywhere else.
func TestNoCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	var failed error
	s, err := Open("xds://127.0.0.1:1?node=a", Options{NotKept: func(err error) { failed = err }})
	if err != nil {
		t.Fatal(err)
	}
	if failed == nil || s.copy.file != "" {
		t.Errorf("%v; it keeps a copy in %q", failed, s.copy.file)
	}
}

type stuck struct {
	grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]

	ctx context.Context //nolint:containedctx // of a stream, as gRPC has it
}

func (s stuck) Send(*discoveryv3.DiscoveryRequest) error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

// TestCopyFails: a copy that can't be written is told once, and the rules are active all the same.
func TestCopyFails(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var failed []string
	s, err := Open("xds://"+c.Address+"?node="+xdstest.Node+"&last="+file+"/last", Options{NotKept: func(err error) { failed = append(failed, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if set, err := s.Load(t.Context()); err != nil || told(set) != "shop/user 5/min fixed-window" {
			t.Error(told(set), err)
		}
	}
	if len(failed) != 1 || !strings.Contains(failed[0], "keep a copy of the rules") {
		t.Error(failed)
	}
}
