package daemon

import (
	"go/version"
	"net/http"
	"strings"
)

// safeHTTP2 is the first Go whose net/http no client can crash by HTTP/2
// (CVE-2026-97032), or feed with memory (CVE-2026-78659) and work (CVE-2026-78669).
const safeHTTP2 = "go1.26.9"

// hasSafeHTTP2 is whether a Go has these mended, by what runtime.Version says. Of one
// that was built from between releases nobody knows.
func hasSafeHTTP2(goVersion string) bool {
	goVersion, _, _ = strings.Cut(goVersion, " ") // experiments follow
	return version.IsValid(goVersion) && version.Compare(goVersion, safeHTTP2) >= 0
}

// httpProtocols is what the HTTP and admin doors speak, for net/http and as ALPN names
// it.
func (c *Config) httpProtocols() (*http.Protocols, []string) {
	p, names := new(http.Protocols), []string{"http/1.1"}
	p.SetHTTP1(true)
	if hasSafeHTTP2(c.goVersion) {
		p.SetHTTP2(true)
		names = []string{"h2", "http/1.1"}
	}
	return p, names
}

// sayHTTP2 tells once why clients get no HTTP/2 that could have it.
func (d *Daemon) sayHTTP2() {
	if d.keys.tls != nil && !hasSafeHTTP2(d.config.goVersion) {
		d.config.Log.Warn("the HTTP and admin doors speak HTTP/1.1 only: clients could crash this daemon by HTTP/2; build it with a newer Go",
			"go", d.config.goVersion, "needed", safeHTTP2)
	}
}
