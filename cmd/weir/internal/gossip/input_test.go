package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// TestOpenRefuses names options that can mean nothing, and what is said of them.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no port", Options{Bind: "127.0.0.1"}, "write host:port"},
		{"short key", Options{Bind: "127.0.0.1:0", Keys: [][]byte{[]byte("secret")}}, "number 1 has 6 bytes; take 32"},
		{"one key twice", Options{Bind: "127.0.0.1:0", Keys: [][]byte{key(1), key(1)}}, "number 2 is there twice"},
		{"many keys", Options{Bind: "127.0.0.1:0", Keys: manyKeys(MaxKeys + 1)}, "keep the 16 that are in use"},
		{"long meta", Options{Bind: "127.0.0.1:0", Meta: make([]byte, MaxMeta+1)}, "there may be 400"},
		{"long name", Options{Bind: "127.0.0.1:0", Name: strings.Repeat("n", MaxName+1)}, "there may be 255"},
		{"join without a port", Options{Bind: "127.0.0.1:0", Join: []string{"db"}}, "as in 10.0.0.1:8083"},
		{"join at port 0", Options{Bind: "127.0.0.1:0", Join: []string{"db:0"}}, "from 1 to 65535"},
		{"many to join", Options{Bind: "127.0.0.1:0", Join: make([]string, MaxJoin+1)}, "the node learns of the rest"},
		{"no key beyond loopback", Options{Bind: "0.0.0.0:0"}, "give all nodes the same key"},
		{"loopback and others", Options{Bind: "127.0.0.1:0", Keys: [][]byte{key(1)}, Join: []string{"10.0.0.1:8083"}}, "listen at an address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := Open(t.Context(), c.o)
			if err == nil {
				t.Fatal(errors.Join(errors.New("was opened"), g.Close()))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q in it", err, c.want)
			}
		})
	}
}

func manyKeys(n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, key(byte(i)))
	}
	return keys
}

// TestForgedPackets sends all that is no packet of a member. It is counted by what
// it is, and nobody hears of it.
func TestForgedPackets(t *testing.T) {
	nodes := cluster(t, 2, Options{Keys: [][]byte{key(1)}})
	n, peer := nodes[0], nodes[1].me
	seal := func(keys [][]byte, from, to identity, h header) []byte {
		h.kind, h.sender = datagram, from.id
		return mustSeal(t, keys, from, to).append(nil, &h, appendMessage(nil, []byte("forged")))
	}
	good := seal([][]byte{key(1)}, peer, n.me, header{round: 1, sequence: 1 << 40})
	other := bytes.Clone(good)
	other[2] = version + 1
	for _, c := range []struct {
		reason Reason
		packet []byte
	}{
		{Truncated, good[:headerSize-1]},
		{Truncated, good[:headerSize+sealSize-1]},
		{Oversize, append(bytes.Clone(good), make([]byte, packetSize)...)},
		{Version, other},
		{Version, bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 4)},
		{UnknownKey, seal([][]byte{key(2)}, peer, n.me, header{round: 1, sequence: 1 << 40})},
		{UnknownKey, seal(nil, peer, n.me, header{round: 1, sequence: 1 << 40})},
		{Forged, append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1)},
		{Forged, seal([][]byte{key(1)}, peer, carol, header{round: 1, sequence: 1 << 40})},
		{Unknown, seal([][]byte{key(1)}, carol, n.me, header{round: 1, sequence: 1 << 40})},
		{OwnName, seal([][]byte{key(1)}, n.me, n.me, header{round: 1, sequence: 1 << 40})},
	} {
		before := n.Stats().In.Dropped[c.reason]
		poke(t, n, c.packet)
		n.until(t, "counts "+c.reason.String(), func() bool { return n.Stats().In.Dropped[c.reason] == before+1 })
	}
	h := header{kind: datagram, sender: peer.id, round: 1, heard: 1, sequence: 1 << 41}
	poke(t, n, mustSeal(t, [][]byte{key(1)}, peer, n.me).append(nil, &h, []byte("\x05ab")))
	n.until(t, "counts garbled", func() bool { return n.Stats().In.Dropped[Garbled] == 1 })
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.heard) > 0 {
		t.Errorf("heard %q", n.heard)
	}
}

// poke sends a datagram to n, from a port of its own.
func poke(t *testing.T, n *node, b []byte) {
	t.Helper()
	c := dial(t, "udp", n.port.udp.LocalAddr().String())
	defer c.Close()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGarbage sends bytes that mean nothing to the port, also such as begin like
// memberlist's, by datagrams and streams. The node lives, and stays small.
func TestGarbage(t *testing.T) {
	for name, o := range map[string]Options{"sealed": {Keys: [][]byte{key(1)}}, "unsealed": {}} {
		t.Run(name, func(t *testing.T) {
			nodes := cluster(t, 2, o)
			random := rand.New(rand.NewPCG(3, 4))
			for i := range 2000 {
				poke(t, nodes[0], garbage(random, i))
			}
			for i := range 50 {
				c := dial(t, "tcp", nodes[0].Name())
				_, _ = c.Write(garbage(random, i)) // it may be closed already
				defer c.Close()                    // the node has to close its side by itself
			}
			nodes[0].until(t, "closes the streams", func() bool { return nodes[0].Stats().Streams == 0 })
			nodes[0].sees(t, nodes...)
			nodes[0].gets(t, nodes[1], "still here")
			nodes[1].gets(t, nodes[0], "me too")
		})
	}
}

// garbage begins as one of the things that the port takes.
func garbage(random *rand.Rand, i int) []byte {
	begin := [][]byte{{}, []byte(magic), {'w', 'R', version, datagram}, {labelMark, 4, 'w', 'e', 'i', 'r'}, {labelMark, 4, 'w', 'e', 'i', 'r', byte(random.IntN(16))}}
	b := append([]byte(nil), begin[i%len(begin)]...)
	for range random.IntN(1500) {
		b = append(b, byte(random.UintN(256)))
	}
	return append(b, 0)
}

// TestManyStreams opens more streams to memberlist than it gets, and leaves them
// there. Those beyond are closed, and counted.
func TestManyStreams(t *testing.T) {
	nodes := cluster(t, 2, Options{Keys: [][]byte{key(1)}})
	for range maxStates + 10 {
		c := dial(t, "tcp", nodes[0].Name())
		defer c.Close()
		if _, err := c.Write([]byte{labelMark, 4, 'w', 'e', 'i', 'r'}); err != nil {
			t.Fatal(err)
		}
	}
	nodes[0].until(t, "has closed those beyond", func() bool { return nodes[0].Stats().In.Dropped[Membership] >= 10 })
	nodes[0].sees(t, nodes...)
}

// TestFrames sends frames that are none. The stream is closed, and what it is
// counted.
func TestFrames(t *testing.T) {
	nodes := cluster(t, 2, Options{Keys: [][]byte{key(1)}})
	n, peer := nodes[0], nodes[1].me
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	h := header{kind: frame, sender: peer.id, round: 1, sequence: 1 << 40}
	sealed := mustSeal(t, [][]byte{key(1)}, peer, n.me).append(nil, &h, appendMessage(nil, []byte("good")))
	for reason, b := range map[Reason][]byte{
		Oversize:  length(frameSize + 1),
		Truncated: append(length(40), 1, 2, 3),
		Version:   append(length(40), make([]byte, 40)...),
		Replayed:  append(append(length(uint32(len(sealed))), sealed...), append(length(uint32(len(sealed))), sealed...)...),
	} {
		before := n.Stats().In.Dropped[reason]
		c := dial(t, "tcp", n.Name())
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if reason == Truncated {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		n.until(t, "counts "+reason.String(), func() bool { return n.Stats().In.Dropped[reason] == before+1 && n.Stats().Streams == 0 })
		_ = c.Close()
	}
}

// TestTooMuch gives more than goes out, to a member and to nobody. What is not
// taken is counted, and nothing grows.
func TestTooMuch(t *testing.T) {
	nodes := cluster(t, 2, Options{Keys: [][]byte{key(1)}})
	from, to := nodes[0], nodes[1]
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	taken, refused := uint64(0), uint64(0)
	start := from.Stats().Out
	for range 300_000 {
		if from.Send(to.Name(), bytes.Repeat([]byte("m"), 100)) {
			taken++
		} else {
			refused++
		}
	}
	from.until(t, "has sent what it took", func() bool {
		out := from.Stats().Out
		return out.Messages+out.Dropped[Unreachable] == start.Messages+taken
	})
	if got := from.Stats().Out.Dropped[Budget]; got != refused || refused == 0 {
		t.Errorf("counts %d that it did not take; want %d, more than 0", got, refused)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 { // what the test heard is most of it
		t.Errorf("%d bytes more are in use", grown)
	}
	if from.Send("nobody:1", []byte("x")) || from.Send(to.Name(), nil) || from.Send(to.Name(), make([]byte, MaxMessage+1)) {
		t.Error("took a message for nobody, or an empty or too long one")
	}
	if d := from.Stats().Out.Dropped; d[Unknown] != 1 || d[Oversize] != 2 {
		t.Errorf("counts %v", d)
	}
	from.sees(t, nodes...)
}

// TestBudget holds the packets of a second to the pace.
func TestBudget(t *testing.T) {
	var b budget
	passed := 0
	for now := time.Hour; now < time.Hour+time.Second; now += 10 * time.Microsecond {
		if b.take(now, maxPackets, packetBurst) {
			passed++
		}
	}
	if passed < maxPackets || passed > maxPackets+packetBurst {
		t.Errorf("%d packets in a second; want %d and a burst of %d", passed, maxPackets, packetBurst)
	}
}

// TestArrivals brings more packets of a member than it may send. Those beyond are
// dropped, and it is heard all the same.
func TestArrivals(t *testing.T) {
	nodes := cluster(t, 2, Options{Keys: [][]byte{key(1)}})
	n, peer := nodes[0], nodes[1].me
	s := mustSeal(t, [][]byte{key(1)}, peer, n.me)
	heard := int64(0)
	for i := 0; n.Stats().In.Dropped[Budget] == 0; i++ {
		if i > 100*maxPackets {
			t.Fatalf("%d packets were taken", i)
		}
		heard = (*n.numbers.Load())[peer.id].heard.Load()
		h := header{kind: datagram, sender: peer.id, round: 1, heard: 1, sequence: 1<<40 + uint64(i)}
		n.receive(s.append(nil, &h, nil), datagram, packetSize)
	}
	if (*n.numbers.Load())[peer.id].heard.Load() == heard {
		t.Error("the one that was dropped was not heard")
	}
}

// TestDNS finds nodes by a name that stands for all of them, once it does.
func TestDNS(t *testing.T) {
	server, set := nameServer(t)
	look := (&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server)
	}}).LookupNetIP
	e := edge{lookup: look, confirm: time.Hour}
	first := beginAt(t, Options{}, e)
	_, port, err := net.SplitHostPort(first.Name())
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*node{first}
	for _, host := range []string{"127.0.0.2", "127.0.0.3"} {
		nodes = append(nodes, beginAt(t, Options{Bind: net.JoinHostPort(host, port), Join: []string{net.JoinHostPort("nodes.test", port)}}, e))
	}
	for _, n := range nodes[1:] {
		n.until(t, "says that the name stands for nothing", func() bool {
			return strings.Contains(n.log.String(), "cannot look up a node to join")
		})
	}
	set("127.0.0.2")
	if own, _, _ := nodes[1].candidates(t.Context()); len(own) > 0 {
		t.Errorf("it looks for itself at %v", own)
	}
	set("127.0.0.1", "127.0.0.2", "127.0.0.3")
	for _, n := range nodes {
		n.sees(t, nodes...)
	}
}

// nameServer answers for nodes.test, at its address, with what was set.
func nameServer(t *testing.T) (address string, set func(ips ...string)) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan []string, 1)
	answers <- nil
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			ips := <-answers
			answers <- ips
			if reply, err := answer(b[:n], ips); err == nil {
				_, _ = c.WriteToUDPAddrPort(reply, from) // who asked asks again
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c.LocalAddr().String(), func(ips ...string) {
		<-answers
		answers <- ips
	}
}

func answer(question []byte, ips []string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	if m.Questions[0].Name.String() != "nodes.test." || len(ips) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	if m.Questions[0].Type == dnsmessage.TypeA {
		for _, ip := range ips {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(ip).As4()},
			})
		}
	}
	return m.Pack()
}
