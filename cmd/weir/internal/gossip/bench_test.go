package gossip

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSend sends messages of 60 bytes to another node of this process, as they
// come out there: 256 on their way at once, and one. maxPackets sets the pace.
func BenchmarkSend(b *testing.B) {
	for name, keys := range map[string][][]byte{"sealed": {key(1)}, "unsealed": nil} {
		b.Run(name+"/256", func(b *testing.B) { benchmarkSend(b, keys, 256) })
		b.Run(name+"/1", func(b *testing.B) { benchmarkSend(b, keys, 1) })
	}
}

func benchmarkSend(b *testing.B, keys [][]byte, atOnce int64) {
	var heard atomic.Int64
	wake := make(chan struct{}, 1)
	to, err := Open(b.Context(), Options{Bind: "127.0.0.1:0", Keys: keys, Received: func(string, []byte) {
		heard.Add(1)
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	from, err := Open(b.Context(), Options{Bind: "127.0.0.1:0", Keys: keys, Join: []string{to.Name()}})
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()
	message := make([]byte, 60)
	for heard.Load() == 0 { // until they know each other
		from.Send(to.Name(), message)
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	out, sent := from.Stats().Out, heard.Load()
	lost, before := int64(0), int64(0)
	loss := time.NewTicker(time.Second)
	defer loss.Stop()
	b.ReportAllocs()
	for b.Loop() {
		for !from.Send(to.Name(), message) {
			runtime.Gosched()
		}
		sent++
		for sent-lost-heard.Load() >= atOnce {
			select {
			case <-wake:
			case <-loss.C:
				if heard.Load() == before { // nothing has come for a second
					lost = sent - before
				}
				before = heard.Load()
			}
		}
	}
	now := from.Stats().Out
	b.ReportMetric(float64(now.Messages-out.Messages)/float64(now.Packets-out.Packets), "messages/packet")
	b.ReportMetric(float64(lost), "lost")
}

// BenchmarkPacket is what a message of 60 bytes costs without the network, in a
// packet of 21: it is queued, cut, sealed, opened and delivered.
func BenchmarkPacket(b *testing.B) {
	keys := [][]byte{key(1)}
	from := &peer{identity: bob}
	open := mustSeal(b, keys, bob, alice)
	from.seals.Store(mustSeal(b, keys, alice, bob))
	var seen window
	packet, message, heard := make([]byte, 0, packetSize), make([]byte, 60), 0
	b.ReportAllocs()
	for b.Loop() {
		if _, r := from.queue(message); r != None {
			b.Fatal(r)
		}
		if len(from.out) < 21*61 {
			continue
		}
		queued, _ := from.take()
		queued = queued[:prefix(queued, room)]
		from.taken = nil
		from.sequence++
		h := header{kind: datagram, sender: alice.id, sequence: from.sequence}
		packet = from.seals.Load().append(packet[:0], &h, queued)
		got, _ := parseHeader(packet, datagram, packetSize)
		messages, r := open.unseal(packet, &got)
		if r != None || !seen.fresh(got.sequence) || !whole(messages) {
			b.Fatal(r)
		}
		seen.take(got.sequence)
		for rest := messages; len(rest) > 0; heard++ {
			_, rest, _ = cut(rest)
		}
	}
	if heard < b.N-21 {
		b.Errorf("%d of %d messages came out", heard, b.N)
	}
}
