package httplimit

import (
	"net/netip"
	"testing"
)

// FuzzClient: whatever a client writes into the headers, who is behind a proxy is
// who the proxy says, and who is not is who they are.
func FuzzClient(f *testing.F) {
	f.Add("1.1.1.1, 2.2.2.2", `for="[2001:db8::1]:80";proto=https, for=_x`)
	f.Add("::1:80,, unknown", `for="a\"b,;for=1.1.1.1`)
	f.Add("[::ffff:1.2.3.4%25eth0]:x", ";;,=,for=\"\";FOR=\"1.1.1.1:\"")
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, list, forwarded string) {
		for _, s := range []Source{{Trusted: proxies}, {Trusted: proxies, Forwarded: true}, {Hops: 1}, {Hops: 1, Forwarded: true}} {
			key := keyBy(t, s)
			r := from("10.0.0.1:1")
			r.Header["X-Forwarded-For"] = []string{list, "192.0.2.7"}
			r.Header["Forwarded"] = []string{forwarded, "for=192.0.2.7"}
			if got := keyOf(key, r); got != "192.0.2.7" {
				t.Errorf("%+v, a line of its own: %s", s, got)
			}
			r.Header["X-Forwarded-For"] = []string{list + ", 192.0.2.7"}
			r.Header["Forwarded"] = []string{forwarded + ", for=192.0.2.7"}
			if got := keyOf(key, r); got != "192.0.2.7" {
				t.Errorf("%+v, added to a line: %s", s, got)
			}
			r.RemoteAddr = "198.51.100.1:1"
			if got := keyOf(key, r); s.Hops == 0 && got != "198.51.100.1" {
				t.Errorf("%+v, from a stranger: %s", s, got)
			}
		}
	})
}
