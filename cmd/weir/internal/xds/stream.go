package xds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/rules"
)

const (
	// maxAnswer is how large an answer may be, in bytes, as large as rule files together. A larger one ends its stream.
	maxAnswer = rules.MaxFileSize
	// connectTime is how long a connection may take, with TLS, and sendTime how long the control plane may take
	// to receive what it is told.
	connectTime = 10 * time.Second
	sendTime    = 10 * time.Second
	// pingEvery is how often the control plane is asked whether it is there. gRPC servers hang up on clients that ask more
	// often than each five minutes; the kernel's probes, which no server counts, find one that is gone in a minute.
	pingEvery = 6 * time.Minute
	pingTime  = 20 * time.Second
	probeIdle = 30 * time.Second
	probeStep = 10 * time.Second
	probes    = 3
	// maxReason is how long the reason of a refusal may be, in bytes.
	maxReason = 4 << 10
)

var (
	errReload = errors.New("it was asked to begin anew")
	errStuck  = fmt.Errorf("it has not received for %v what it is told", sendTime)
)

// stream is one stream to the control plane.
type stream struct {
	s    *Source
	ads  grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
	end  context.CancelCauseFunc
	tell func(*rules.Set, error)

	version  string // that was taken last
	answered bool   // one was taken
	refused  digest // of what was refused last
	why      error  // why it was
	refusals int    // how often on end
}

type digest [sha256.Size]byte

// follow opens a stream and takes what comes by it, until it breaks. answered is whether anything was taken.
func (s *Source) follow(ctx context.Context, tell func(*rules.Set, error)) (answered bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	conn, err := s.dial()
	if err != nil {
		return false, err
	}
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer conn.Close() // nothing is left to be told
	defer end(nil)
	ads, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(metadata.NewOutgoingContext(ctx, s.place.headers))
	if err != nil {
		s.status.change(func(n *Status) { n.Failed++ })
		return false, s.explain(err)
	}
	s.book.open()
	s.status.change(func(n *Status) { n.Connected, n.Since, n.Streams = true, time.Now(), n.Streams+1 })
	defer s.status.change(func(n *Status) { n.Connected, n.Since = false, time.Now() })
	t := &stream{s: s, ads: ads, end: end, tell: tell}
	t.send("", nil)
	box, broken := make(chan *discoveryv3.DiscoveryResponse, 1), make(chan error, 1)
	receiving.Go(func() { t.receive(box, broken) })
	err = t.keep(ctx, box, broken)
	return t.answered, err
}

func (s *Source) dial() (*grpc.ClientConn, error) {
	show := insecure.NewCredentials()
	if s.files != nil {
		if _, err := s.files.Look(time.Now(), true); err != nil {
			return nil, err
		}
		config := s.files.Value().Clone()
		config.ServerName = s.place.server
		show = grpccredentials.NewTLS(config)
	}
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeIdle, Interval: probeStep, Count: probes}}
	return grpc.NewClient(
		s.place.address, grpc.WithTransportCredentials(show), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	)
}

// receive puts answers into box, each in the place of one that nobody has taken out, until there is an error.
func (t *stream) receive(box chan *discoveryv3.DiscoveryResponse, broken chan<- error) {
	for {
		answer, err := t.ads.Recv()
		if err != nil {
			broken <- err
			return
		}
		t.s.status.change(func(n *Status) { n.Bytes += uint64(proto.Size(answer)) })
		select {
		case <-box:
			t.s.status.change(func(n *Status) { n.Superseded++ })
		default:
		}
		box <- answer
	}
}

// keep takes answers out of box until the stream breaks.
func (t *stream) keep(ctx context.Context, box <-chan *discoveryv3.DiscoveryResponse, broken <-chan error) error {
	timers := newTimers(t.s.pace.silence)
	defer timers.stop()
	open := box                                // nil while it has to wait
	var refusal *discoveryv3.DiscoveryResponse // to be refused when timers.refuse rings
	for {
		t.s.arm(timers)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.s.reload:
			t.s.failed = anything
			return errReload
		case err := <-broken:
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return t.s.explain(err)
		case answer := <-open:
			timers.silent.Stop()
			if answer.GetTypeUrl() != typeURL {
				return fmt.Errorf("it sends resources of the type %q, which nobody asked for; is it a control plane for rate limits?", answer.GetTypeUrl())
			}
			refusal = nil
			if wait := t.take(answer); wait > 0 {
				refusal = answer
				timers.refuse.Reset(wait)
			}
			open = nil
			timers.pause.Reset(t.s.pace.between)
		case <-timers.pause.C:
			open = box
		case <-timers.refuse.C:
			if refusal != nil {
				t.refuse(refusal, t.why)
			}
			refusal = nil
		case <-timers.silent.C:
			t.s.tell(nil, t.s.away(fmt.Errorf("it has taken the stream, and sent nothing for %v; is %q the node that it knows?", t.s.pace.silence, t.s.place.node.GetId())), t.tell)
		case <-timers.held.C:
			t.expire()
		case <-timers.copy.C:
			t.s.copy.flush(&t.s.book)
		}
	}
}

// timers are what rings while a stream is open.
type timers struct{ silent, pause, refuse, held, copy *time.Timer }

func newTimers(silent time.Duration) *timers {
	stopped := func() *time.Timer {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	return &timers{time.NewTimer(silent), stopped(), stopped(), stopped(), stopped()}
}

func (t *timers) stop() {
	for _, one := range []*time.Timer{t.silent, t.pause, t.refuse, t.held, t.copy} {
		one.Stop()
	}
}

// arm sets the timers of what is due.
func (s *Source) arm(t *timers) {
	names, until := s.book.held()
	s.status.change(func(n *Status) { n.Held = len(names) })
	if t.held.Stop(); len(names) > 0 {
		t.held.Reset(time.Until(until))
	}
	t.copy.Stop()
	if in, due := s.copy.due(time.Now()); due {
		t.copy.Reset(in)
	}
}

// take puts an answer in force and tells the control plane so, or refuses it. wait is how long to wait before it is refused, when
// it was refused before.
func (t *stream) take(answer *discoveryv3.DiscoveryResponse) (wait time.Duration) {
	sum := digestOf(answer)
	if t.refusals > 0 && sum == t.refused {
		t.refusals++
		return max(t.s.pace.refuse.Delay(t.refusals-2, 0, rand.Uint64()), t.s.pace.between)
	}
	s, now := t.s, time.Now()
	read, err := s.book.read(answer.GetResources())
	var set *rules.Set
	var domains map[string]*domain
	if err == nil {
		domains = s.book.next(read, now)
		if set, err = join(domains); err == nil {
			err = s.options.Check(set)
		}
	}
	if err != nil {
		t.refused, t.refusals, t.why = sum, 1, err
		s.tell(nil, err, t.tell)
		t.refuse(answer, err)
		return 0
	}
	first := !t.answered
	t.put(domains, set, now)
	t.version, t.answered, t.refusals = answer.GetVersionInfo(), true, 0
	s.status.change(func(n *Status) { n.Version, n.Answered, n.Accepted = t.version, now, n.Accepted+1 })
	if names, until := s.book.held(); first && len(names) > 0 {
		s.options.Held(names, until)
	}
	t.send(answer.GetNonce(), nil)
	return 0
}

// put puts domains in force.
func (t *stream) put(domains map[string]*domain, set *rules.Set, now time.Time) {
	s := t.s
	first := s.book.domains == nil
	changed := s.book.take(domains, now) || first
	if changed {
		s.copy.dirty = true
		s.status.change(func(n *Status) { n.Changed = now })
	}
	if changed || s.failed != "" {
		s.tell(set, nil, t.tell)
	}
}

// expire removes the domains that were held until now.
func (t *stream) expire() {
	domains := t.s.book.expired()
	set, err := join(domains)
	if err == nil {
		err = t.s.options.Check(set)
	}
	if err != nil {
		t.s.tell(nil, err, t.tell) // it can't be: fewer domains fit where more did
		return
	}
	t.put(domains, set, time.Now())
}

// refuse tells the control plane that an answer was not taken, and why.
func (t *stream) refuse(answer *discoveryv3.DiscoveryResponse, why error) {
	t.s.status.change(func(n *Status) { n.Refused++ })
	t.send(answer.GetNonce(), &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason(why)})
}

// send asks for all resources; behind an answer with a nonce it says whether that was taken. A stream on which it
// can't be sent breaks by itself, or here.
func (t *stream) send(nonce string, refused *statuspb.Status) {
	stuck := time.AfterFunc(sendTime, func() { t.end(errStuck) })
	defer stuck.Stop()
	_ = t.ads.Send(&discoveryv3.DiscoveryRequest{
		Node: t.s.place.node, TypeUrl: typeURL, VersionInfo: t.version, ResponseNonce: nonce, ErrorDetail: refused,
	})
}

// reason is why an answer was refused, for its author: first the resources that are bad, then what is wrong with them.
func reason(err error) string {
	text := err.Error()
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		var names []string
		seen := map[string]bool{}
		for _, f := range bad.Findings {
			if name := strings.TrimPrefix(f.File, fileName("")); f.Severity == rules.SeverityError && !seen[f.File] {
				seen[f.File] = true
				names = append(names, name)
			}
		}
		text = "refused, the rules before stay: " + strings.Join(names, ", ") + "\n" + text
	}
	if len(text) <= maxReason {
		return text
	}
	const cut = "… (cut)"
	return strings.ToValidUTF8(text[:maxReason-len(cut)], "") + cut
}

// digestOf is of what an answer says, whatever its version and nonce.
func digestOf(answer *discoveryv3.DiscoveryResponse) (sum digest) {
	h := sha256.New()
	for _, r := range answer.GetResources() {
		part := sha256.Sum256(r.GetValue())
		_, _ = io.WriteString(h, r.GetTypeUrl())
		h.Write(part[:])
	}
	return digest(h.Sum(nil))
}

// explain says what a stream has broken by, and what to do.
func (s *Source) explain(err error) error {
	text := status.Convert(err).Message()
	if errors.Is(err, io.EOF) {
		return errors.New("it has ended the stream")
	}
	for _, known := range []struct{ part, todo string }{
		{"first record does not look like a TLS handshake", "it does not speak TLS; leave tls, ca, cert, key and server-name out of the URL"},
		{"certificate signed by unknown authority", "give the CA of its certificate by ca=FILE"},
		{"certificate required", "it wants a certificate; give cert=FILE and key=FILE"},
		{"bad certificate", "it does not believe the certificate of cert=FILE; give one of the CA that it trusts"},
		{"unknown certificate authority", "it does not believe the certificate of cert=FILE; give one of the CA that it trusts"},
		{"certificate has expired or is not yet valid", "its certificate, or the clock of this machine, is wrong"},
		{"certificate is valid for", "give a name that is in its certificate by server-name=NAME"},
		{"error reading server preface", "it answers, but not HTTP/2 without TLS; if it wants TLS, give tls=true or ca=FILE"},
		{"received message larger than max", fmt.Sprintf("an answer has at most %d bytes; give this node fewer rules", maxAnswer)},
	} {
		if strings.Contains(text, known.part) {
			return fmt.Errorf("%s: %s", text, known.todo)
		}
	}
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("%s: it is no control plane; the port of its aggregated discovery service is meant", text)
	}
	return errors.New(text)
}

// locals are the addresses of this side of a connection, which differ each time.
var locals = regexp.MustCompile(`(read|write) tcp \S+->`)

// said is an error's text, the same for the same reason.
func said(err error) string { return locals.ReplaceAllString(err.Error(), "$1 tcp ") }
