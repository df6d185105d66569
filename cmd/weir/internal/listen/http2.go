package listen

import (
	"go/version"
	"net/http"
	"strings"
)

// SafeHTTP2 is the first Go whose net/http no client can crash by HTTP/2
// (CVE-2026-97032), or feed with memory (CVE-2026-78659) and work (CVE-2026-78669).
const SafeHTTP2 = "go1.26.9"

// HasSafeHTTP2 reports whether a Go has these mended, by what runtime.Version says. A Go built
// between releases counts as not mended.
func HasSafeHTTP2(goVersion string) bool {
	goVersion, _, _ = strings.Cut(goVersion, " ") // experiments follow
	return version.IsValid(goVersion) && version.Compare(goVersion, SafeHTTP2) >= 0
}

// Protocols is what HTTP servers speak that a Go of this version has built, for net/http
// and as ALPN names it.
func Protocols(goVersion string) (*http.Protocols, []string) {
	p, names := new(http.Protocols), []string{"http/1.1"}
	p.SetHTTP1(true)
	if HasSafeHTTP2(goVersion) {
		p.SetHTTP2(true)
		names = []string{"h2", "http/1.1"}
	}
	return p, names
}
