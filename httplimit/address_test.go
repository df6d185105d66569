package httplimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir/internal/address"
)

// from is a request from the other end of a connection.
func from(peer string) *http.Request {
	return &http.Request{RemoteAddr: peer, Header: http.Header{}}
}

func prefixes(all ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, text := range all {
		p = append(p, netip.MustParsePrefix(text))
	}
	return p
}

func keyBy(t testing.TB, s Source) Key {
	t.Helper()
	key, err := Address(s)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// keyOf is the key of a request, or "none".
func keyOf(key Key, r *http.Request) string {
	k, err := key(r)
	switch {
	case errors.Is(err, ErrNoKey):
		return "none"
	case err != nil:
		return "refused"
	}
	return k
}

// TestA1MappedAddressesAreIPv4: an IPv4 address is one client in whatever form it
// comes, and IPv4 clients that come mapped don't share a network.
func TestA1MappedAddressesAreIPv4(t *testing.T) {
	for peer, want := range map[string]string{
		"1.2.3.4:5":                    "1.2.3.4",
		"[::ffff:1.2.3.4]:5":           "1.2.3.4",
		"[::ffff:102:304]:5":           "1.2.3.4",
		"[0:0:0:0:0:ffff:0102:0304]:5": "1.2.3.4",
		"[::ffff:1.2.3.5]:5":           "1.2.3.5",
		"[2001:db8::1.2.3.4]:5":        "2001:db8::/64",
		"[2001:db8::102:304]:5":        "2001:db8::/64",
		"[64:ff9b::192.0.2.33]:5":      "192.0.2.33", // of NAT64
		"[64:ff9b::10.0.0.1]:5":        "64:ff9b::/64",
		"[fe80::1%eth0]:5":             "fe80::/64",
		"[fe80::1%eth1]:5":             "fe80::/64",
	} {
		if got := keyOf(Peer, from(peer)); got != want {
			t.Errorf("%s is %s, want %s", peer, got, want)
		}
		behind := from("10.0.0.1:1")
		behind.Header.Set("X-Forwarded-For", strings.TrimSuffix(peer, ":5"))
		if got := keyOf(keyBy(t, Source{Hops: 1}), behind); got != want {
			t.Errorf("X-Forwarded-For: %s is %s, want %s", peer, got, want)
		}
	}
}

// TestA2ForgedForwardedFor: who is not behind a proxy of ours may write what they
// like, and who is can only write to the left of what the proxy writes.
func TestA2ForgedForwardedFor(t *testing.T) {
	source := Source{Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48")}
	forged := func() string {
		a := netip.AddrFrom4([4]byte{byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))})
		return a.String()
	}
	for range 10_000 {
		r := from("203.0.113.7:999")
		for range 1 + rand.N(3) {
			r.Header.Add("X-Forwarded-For", forged()+", "+forged())
		}
		if got := keyOf(keyBy(t, source), r); got != "203.0.113.7" {
			t.Fatalf("%v made %s of it", r.Header, got)
		}
		// The same behind two proxies, one of which adds a line and the other to it.
		r.RemoteAddr = "[2001:db8:ffff::1]:999"
		r.Header.Add("X-Forwarded-For", "203.0.113.7, 10.1.2.3")
		for _, s := range []Source{source, {Hops: 2}} {
			if got := keyOf(keyBy(t, s), r); got != "203.0.113.7" {
				t.Fatalf("%v and %+v made %s of it", r.Header, s, got)
			}
		}
	}
}

// TestA3RotatingWithinANetwork: all addresses that one customer has are one
// client.
func TestA3RotatingWithinANetwork(t *testing.T) {
	wide := keyBy(t, Source{IPv6: 56})
	narrow := keyBy(t, Source{IPv6: 128})
	peers, wides, narrows := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for range 1000 {
		r := from(fmt.Sprintf("[2001:db8:1:%x:%x:%x:%x:%x]:9", 0x200+rand.N(256), rand.N(1<<16), rand.N(1<<16), rand.N(1<<16), rand.N(1<<16)))
		wides[keyOf(wide, r)], narrows[keyOf(narrow, r)] = true, true
		r.RemoteAddr = "[2001:db8:1:2:" + strings.SplitN(r.RemoteAddr, ":", 5)[4]
		peers[keyOf(Peer, r)] = true
	}
	if len(peers) != 1 || !peers["2001:db8:1:2::/64"] || len(wides) != 1 || len(narrows) != 1000 {
		t.Errorf("%v by /64, %v by /56, %d by /128", peers, wides, len(narrows))
	}
}

// TestNetworkText: the key of a /64 is the text that netip.Prefix has for it, so that
// counts stay where they were.
func TestNetworkText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b [16]byte
		for i := range b {
			b[i] = rapid.SampledFrom([]byte{0, 0, 0, 1, 0x0f, 0x10, 0xab, 0xff}).Draw(t, "byte")
		}
		a := netip.AddrFrom16(b)
		if a.Is4In6() {
			return
		}
		got, err := network(a, address.IPv6Bits)
		if want := netip.PrefixFrom(a, 64).Masked().String(); got != want || err != nil {
			t.Errorf("%v: %s, %v, want %s", a, got, err, want)
		}
	})
}

// TestA10PortsAndNobody: a port is no part of a client, and nobody is nobody.
func TestA10PortsAndNobody(t *testing.T) {
	one := keyBy(t, Source{Hops: 1})
	for _, entry := range []string{
		"192.0.2.1", "192.0.2.1:80", " 192.0.2.1 ", "192.0.2.1:65535", "1.1.1.1, 192.0.2.1:7",
		"[::ffff:192.0.2.1]:80", "192.0.2.1,", "192.0.2.1, ,",
	} {
		r := from("10.0.0.1:1")
		r.Header.Set("X-Forwarded-For", entry)
		if got := keyOf(one, r); got != "192.0.2.1" {
			t.Errorf("%q is %s", entry, got)
		}
	}
	for _, peer := range []string{"", "@", "pipe", "/run/app.sock", "1.2.3:80", "01.2.3.4:80"} {
		if got := keyOf(Peer, from(peer)); got != "none" {
			t.Errorf("the peer %q is %s", peer, got)
		}
	}
	// What a proxy writes when it does not know leaves the proxy itself.
	for _, entry := range []string{"unknown", "_hidden", "300.1.1.1", "1.2.3.4.5", "[::1", "::1]", "1.2.3.4:x", "\x00", "[1.2.3.4]x"} {
		r := from("10.0.0.1:1")
		r.Header.Set("X-Forwarded-For", "192.0.2.1, "+entry)
		if got := keyOf(one, r); got != "10.0.0.1" {
			t.Errorf("%q is %s", entry, got)
		}
	}
	// Over a unix socket there is a proxy, but no address of it.
	r := from("@")
	if got := keyOf(one, r); got != "none" {
		t.Errorf("no header is %s", got)
	}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	if got := keyOf(one, r); got != "192.0.2.1" {
		t.Errorf("behind a socket: %s", got)
	}
	if got := keyOf(keyBy(t, Source{Trusted: prefixes("0.0.0.0/0")}), r); got != "none" {
		t.Errorf("a socket is in a network: %s", got)
	}
}

// TestA11HeadersFromStrangers: neither header counts when it comes from a peer
// that is not trusted, and the one that is not chosen never does.
func TestA11HeadersFromStrangers(t *testing.T) {
	r := from("198.51.100.1:1")
	r.Header.Set("X-Forwarded-For", "10.9.9.9")
	r.Header.Set("Forwarded", "for=10.9.9.9")
	r.Header.Set("X-Real-Ip", "10.9.9.9")
	r.Header.Set("True-Client-Ip", "10.9.9.9")
	trusted := prefixes("::ffff:10.0.0.0/104") // which is 10.0.0.0/8
	for _, s := range []Source{{}, {Trusted: trusted}, {Trusted: trusted, Forwarded: true}} {
		if got := keyOf(keyBy(t, s), r); got != "198.51.100.1" {
			t.Errorf("%+v: %s", s, got)
		}
	}
	r = from("10.0.0.1:1")
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	if got := keyOf(keyBy(t, Source{Trusted: trusted, Forwarded: true}), r); got != "10.0.0.1" {
		t.Errorf("Forwarded was chosen, and X-Forwarded-For read: %s", got)
	}
	if got := keyOf(keyBy(t, Source{Trusted: trusted}), r); got != "192.0.2.1" {
		t.Errorf("a proxy is not trusted in another form: %s", got)
	}
}

func TestForwarded(t *testing.T) {
	source := Source{Trusted: prefixes("10.0.0.0/8"), Forwarded: true}
	hops := Source{Hops: 2, Forwarded: true}
	for _, c := range []struct {
		lines         []string
		trusted, hops string
	}{
		{nil, "10.0.0.1", "10.0.0.1"},
		{[]string{"for=192.0.2.43"}, "192.0.2.43", "192.0.2.43"},
		{[]string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::/64", "2001:db8:cafe::/64"},
		{[]string{"for=192.0.2.60;proto=http;by=203.0.113.43"}, "192.0.2.60", "192.0.2.60"},
		{[]string{"by=203.0.113.43 ; FOR = x"}, "10.0.0.1", "10.0.0.1"}, // no space around =
		{[]string{"for=9.9.9.9, for=198.51.100.17, for=10.0.0.2"}, "198.51.100.17", "198.51.100.17"},
		{[]string{"for=9.9.9.9, for=198.51.100.17", "for=10.0.0.2"}, "198.51.100.17", "198.51.100.17"},
		{[]string{"for=192.0.2.1:8080"}, "192.0.2.1", "192.0.2.1"}, // without the quotes that it needs
		{[]string{`for="192.0.2.1:8080"`}, "192.0.2.1", "192.0.2.1"},
		{[]string{"for=9.9.9.9, for=_hidden, for=10.0.0.2"}, "10.0.0.2", "10.0.0.2"},
		{[]string{"for=9.9.9.9, for=unknown"}, "10.0.0.1", "10.0.0.1"},
		{[]string{"for=9.9.9.9, proto=https"}, "10.0.0.1", "10.0.0.1"}, // it does not tell
		{[]string{`for=9.9.9.9;ext="a,b;for=8.8.8.8\""`}, "9.9.9.9", "9.9.9.9"},
		{[]string{`ext="a,`, "for=192.0.2.1"}, "192.0.2.1", "192.0.2.1"}, // behind whom we need not look
		{[]string{`ext="a, for=192.0.2.1`}, "192.0.2.1", "192.0.2.1"},    // which a proxy has added
		{[]string{`for=1.1.1.1;ext="a\`, `x=", for="10.0.0.2";ext="\\\",\\"`}, "10.0.0.2", "10.0.0.2"},
		{[]string{"for=1.1.1.1;for=2.2.2.2"}, "10.0.0.1", "10.0.0.1"},
		{[]string{"for=192.0.2.1 for=2.2.2.2"}, "10.0.0.1", "10.0.0.1"},
		{[]string{", ,for=192.0.2.1,,"}, "192.0.2.1", "192.0.2.1"},
		{[]string{";;for=192.0.2.1;;"}, "192.0.2.1", "192.0.2.1"},
		{[]string{`for="\1\92.0.2.1"`}, "192.0.2.1", "192.0.2.1"},
		{[]string{"for="}, "10.0.0.1", "10.0.0.1"},
		{[]string{"for"}, "10.0.0.1", "10.0.0.1"},
		{[]string{"=1.1.1.1"}, "10.0.0.1", "10.0.0.1"},
		{[]string{strings.Repeat("for=10.0.0.2,", 1000) + "for=10.0.0.3"}, "10.0.0.2", "10.0.0.2"},
	} {
		r := from("10.0.0.1:1")
		r.Header["Forwarded"] = c.lines
		if got := keyOf(keyBy(t, source), r); got != c.trusted {
			t.Errorf("%q by trust: %s, want %s", c.lines, got, c.trusted)
		}
		if got := keyOf(keyBy(t, hops), r); got != c.hops {
			t.Errorf("%q by hops: %s, want %s", c.lines, got, c.hops)
		}
	}
}

// TestForwardedIsWhatProxiesWrite: what a proxy adds to whatever was there before is
// found, be that a quote that nobody ends. Else who writes one would be the proxy,
// whom Options.Skip may let pass.
func TestForwardedIsWhatProxiesWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.StringMatching(`[a-z0-9=",;\\ .:\[\]]{0,40}`).Draw(t, "before")
		r := from("10.0.0.1:1")
		r.Header["Forwarded"] = []string{before, `for="192.0.2.1:5"`}
		if rapid.Bool().Draw(t, "same line") {
			r.Header["Forwarded"] = []string{before + `, for="192.0.2.1:5"`}
		}
		key, err := Address(Source{Hops: 1, Forwarded: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := keyOf(key, r); got != "192.0.2.1" {
			t.Errorf("%q: %s", r.Header["Forwarded"], got)
		}
	})
}

func TestFrom(t *testing.T) {
	in, err := From(Source{Hops: 1}, prefixes("192.0.2.0/24", "10.0.0.0/8", "2001:db8::/32", "::ffff:198.51.100.0/120", "203.0.113.9/32")...)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"192.0.2.255": true, "192.0.3.0": false, "10.255.0.1": true, "11.0.0.0": false,
		"2001:db8:ffff::1": true, "2001:db9::1": false, "198.51.100.7": true, "198.51.101.7": false,
		"203.0.113.9": true, "203.0.113.8": false, "::ffff:203.0.113.9": true, "": false, "nobody": false,
	} {
		r := from("@")
		r.Header.Set("X-Forwarded-For", address)
		if got := in(r); got != want {
			t.Errorf("%q: %v", address, got)
		}
	}
}

func TestBadSources(t *testing.T) {
	for want, s := range map[string]Source{
		"Trusted[1] is no prefix":  {Trusted: append(prefixes("10.0.0.0/8"), netip.Prefix{})},
		"Hops is -1":               {Hops: -1},
		"Hops is 65":               {Hops: 65},
		"Trusted and Hops":         {Hops: 1, Trusted: prefixes("10.0.0.0/8")},
		"Forwarded trusts":         {Forwarded: true},
		"IPv6 is 129":              {IPv6: 129},
		"IPv6 is -64; it must be ": {IPv6: -64},
	} {
		if _, err := Address(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
		if _, err := From(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("From %+v: %v", s, err)
		}
	}
	if _, err := From(Source{}, netip.Prefix{}); err == nil {
		t.Error("From took no prefix for one")
	}
}
