package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/sim"
)

// hostile is text that must come out as it went in.
const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(2)> "' onload=alert(3) {{.}} ${4} &amp; </title></svg></style>`

// simulated is the report of a run, with the worst traffic for each limit.
func simulated(t testing.TB, workload string, o sim.Options, limits ...string) Report {
	t.Helper()
	r := Report{Command: "weir simulate"}
	var contenders []sim.Contender
	for _, text := range limits {
		naive, text, isNaive := strings.Cut(text, ":")
		if !isNaive {
			text = naive
		}
		l := weir.MustParseLimit(text)
		c, err := sim.Of(l)
		if isNaive {
			c, err = sim.Naive(naive, l)
		}
		if err != nil {
			t.Fatal(err)
		}
		contenders = append(contenders, c)
		if a, err := sim.Search(t.Context(), l, 1, 200); err == nil {
			r.Attacks = append(r.Attacks, a)
		}
	}
	w, err := sim.ParseWorkload(workload, contenders[0].Limit)
	if err != nil {
		t.Fatal(err)
	}
	if r.Result, err = sim.Run(t.Context(), w, contenders, o); err != nil {
		t.Fatal(err)
	}
	return r
}

func wellKnown(t testing.TB) Report {
	return simulated(t, "poisson", sim.Options{Seed: 1}, "100/min fixed-window", "100/min sliding-window", "100/min sliding-window 4")
}

func all(t testing.TB) Report {
	return simulated(
		t, "greedy clients=5 tries=3", sim.Options{Seed: 2}, "100/min", "100/min burst 10", "100/min strict", "100/min leaky-queue",
		"100/min fixed-window", "100/min fixed-window anchored", "100/min sliding-log", "100/min sliding-window", "100/min sliding-window 4",
		"100/min sliding-window 12 conservative", "100/min warm-up 10s", "literal-gcra:100/min", "refill-whole:100/min",
	)
}

// wicked is a report whose texts are all hostile.
func wicked(t testing.TB) Report {
	r := wellKnown(t)
	r.Command, r.Result.Workload = hostile, hostile
	for i := range r.Result.Trials {
		r.Result.Trials[i].Name, r.Result.Trials[i].Says, r.Result.Trials[i].Naive = hostile, hostile, hostile
	}
	return r
}

func pageOf(t testing.TB, r Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPageIsSafe: whatever the texts are, a page has no script, nothing from
// elsewhere and no style but the one that its policy knows.
func TestPageIsSafe(t *testing.T) {
	for name, r := range map[string]Report{"well known": wellKnown(t), "all": all(t), "wicked": wicked(t)} {
		page := pageOf(t, r)
		if !bytes.Equal(page, pageOf(t, r)) {
			t.Errorf("%s: written again it is another", name)
		}
		root, err := html.Parse(bytes.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		var policy string
		var text strings.Builder
		for n := range root.Descendants() {
			if n.Type == html.TextNode {
				text.WriteString(n.Data)
			}
			if n.Type != html.ElementNode {
				continue
			}
			if slices.Contains([]string{"script", "img", "iframe", "object", "embed", "link", "base", "form", "a", "image", "use"}, n.Data) {
				t.Errorf("%s: an element %s", name, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "href" {
					t.Errorf("%s: %s has %s=%q", name, n.Data, a.Key, a.Val)
				}
				if a.Key == "content" && strings.Contains(a.Val, "default-src") {
					policy = a.Val
				}
			}
			if n.Data == "style" {
				sum := sha256.Sum256([]byte(n.FirstChild.Data))
				if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
					t.Errorf("%s: the policy %q does not allow the style, %s", name, policy, want)
				}
			}
		}
		if !strings.HasPrefix(policy, "default-src 'none';") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		if name == "wicked" && strings.Count(text.String(), hostile) < 8 {
			t.Errorf("texts are not as they were: %q", text.String())
		}
	}
}

func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	browser := browsertest.Start(t)
	folder := t.TempDir()
	for name, r := range map[string]Report{"well-known": wellKnown(t), "all": all(t), "wicked": wicked(t)} {
		file := filepath.Join(folder, name+".html")
		if err := os.WriteFile(file, pageOf(t, r), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, v := range browsertest.Views() {
			if v.Dark && name != "well-known" { // colours change no sizes
				continue
			}
			browser.OpenFile(t, v, file).Inspect(t, "report-"+name)
		}
	}
}

// TestPageOfAnything: whatever was simulated, there is a page of it.
func TestPageOfAnything(t *testing.T) {
	for _, c := range []struct {
		workload string
		options  sim.Options
		limits   []string
	}{
		{"poisson rate=0/min", sim.Options{}, []string{"100/min"}},
		{"poisson", sim.Options{}, []string{"0/min"}},
		{"poisson", sim.Options{Duration: time.Microsecond}, []string{"100/min fixed-window", "100/min"}},
		{"poisson", sim.Options{Duration: 90 * time.Second, Step: time.Minute}, []string{"100/min fixed-window"}},
		{"daily", sim.Options{Step: time.Hour}, []string{"5000/month fixed-window zone Asia/Tokyo", "10/s", "1/us"}},
		{"herd clients=3 cost=0-5", sim.Options{Shared: true}, []string{"10/15min", "10/15min debt 5", "10/15min sliding-window 3"}},
		{"retrying tries=1000", sim.Options{}, []string{"3/s leaky-queue queue 0", "3/s sliding-log"}},
	} {
		r := simulated(t, c.workload, c.options, c.limits...)
		page := pageOf(t, r)
		for _, text := range c.limits {
			if !bytes.Contains(page, []byte(">"+weir.MustParseLimit(text).String()+"<")) {
				t.Errorf("the page of %v does not speak of %s", c.limits, text)
			}
		}
		if n := len(r.Pictures()); n < 2 {
			t.Errorf("%v: %d pictures", c.limits, n)
		}
	}
}
