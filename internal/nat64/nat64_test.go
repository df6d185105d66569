package nat64

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
