package webui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// BenchmarkLists is how long lists take of 100,000 rules in 1,000 domains, all
// with traffic; with -short of a hundredth of them.
func BenchmarkLists(b *testing.B) {
	domains := 1000
	if testing.Short() {
		domains = 10
	}
	h := build(b, true)
	for i := range domains {
		h.importDomain(b, fmt.Sprintf("domain-%04d", i))
	}
	err := h.store.Override(b.Context(), root(), rulestore.Override{Domain: "domain-0008", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "a test"})
	if err != nil {
		b.Fatal(err)
	}
	browser := h.signedIn(b, "ann", rulestore.Read, "shop")
	for _, c := range []struct{ name, path string }{
		{"domains", "/ui/"},
		{"rules", "/ui/rules?domain=domain-0007"},
		{"tightened", "/ui/rules?domain=domain-0008"},
		{"search", "/ui/rules?search=path-99"},
		{"nothing", "/ui/rules?search=nowhere"},
		{"traffic", "/ui/traffic"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if r, page := browser.get(b, c.path); r.StatusCode != http.StatusOK {
					b.Fatal(r.Status, page)
				}
			}
		})
	}
}

func (h *house) importDomain(tb testing.TB, name string) {
	tb.Helper()
	var text strings.Builder
	text.WriteString("domain: " + name + "\ndescriptors:\n")
	for i := range 100 {
		fmt.Fprintf(&text, "  - key: path-%02d\n    limits: [%d/s]\n", i, i+1)
		traffic := h.book.Open(offenders.ID{Domain: name, Rule: fmt.Sprintf("%s/path-%02d", name, i)}, nil, time.Now())
		traffic.Pass()
	}
	if _, _, err := h.store.Import(tb.Context(), root(), rulestore.Import{Text: text.String(), Team: name, To: rulestore.Enforced, Reason: "a test"}); err != nil {
		tb.Fatal(err)
	}
}
