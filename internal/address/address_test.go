package address

import (
	"net/netip"
	"testing"
)

func TestIPv4(t *testing.T) {
	for text, want := range map[string]string{
		"64:ff9b::192.0.2.33":         "192.0.2.33",
		"64:ff9b::808:808":            "8.8.8.8",
		"64:ff9b::10.0.0.1":           "64:ff9b::a00:1",
		"64:ff9b::192.168.1.1":        "64:ff9b::c0a8:101",
		"64:ff9b::127.0.0.1":          "64:ff9b::7f00:1",
		"64:ff9b::":                   "64:ff9b::",
		"64:ff9b::1:808:808":          "64:ff9b::1:808:808",
		"64:ff9b:1::808:808":          "64:ff9b:1::808:808",
		"64:ff9a::808:808":            "64:ff9a::808:808",
		"2001:db8::808:808":           "2001:db8::808:808",
		"::ffff:8.8.8.8":              "::ffff:8.8.8.8",
		"8.8.8.8":                     "8.8.8.8",
		"64:ff9b:0:0:0:0:255.255.0.1": "255.255.0.1",
	} {
		if got := IPv4(netip.MustParseAddr(text)).String(); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.33":                  "192.0.2.33",
		"::ffff:192.0.2.33":           "192.0.2.33",
		"64:ff9b::192.0.2.33":         "192.0.2.33",
		"2001:db8:0:7:1:2:3:4":        "2001:db8:0:7::/64",
		"2001:db8::1":                 "2001:db8::/64",
		"fe80::1%eth0":                "fe80::/64",
		"::1":                         "::/64",
		"64:ff9b::10.0.0.1":           "64:ff9b::/64",
		"1:20:300:4000:ffff:f:ff:fff": "1:20:300:4000::/64",
	} {
		if got := Network(netip.MustParseAddr(text), IPv6Bits); got != want {
			t.Errorf("%s is counted as %s, want %s", text, got, want)
		}
	}
	if got := Network(netip.MustParseAddr("2001:db8:0:7::1%eth0"), 48); got != "2001:db8::/48" {
		t.Errorf("its /48 is %s", got)
	}
}
