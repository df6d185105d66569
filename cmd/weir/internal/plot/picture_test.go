package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
)

// TestPicturesAreXML reads all pictures back: texts come out as they went in, and
// nothing in them became an element.
func TestPicturesAreXML(t *testing.T) {
	elements := map[string]bool{"svg": true, "title": true, "desc": true, "style": true, "pattern": true, "path": true, "rect": true, "g": true, "text": true}
	for _, p := range samples() {
		svg := p.SVG()
		if !bytes.Equal(svg, p.SVG()) {
			t.Errorf("%s: drawn again it is another", p.Name)
		}
		if bytes.Contains(p.Inline(), []byte("<style")) {
			t.Errorf("%s: inline it has a style of its own, which pages refuse", p.Name)
		}
		texts := map[string]string{}
		var inside string
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			switch e := token.(type) {
			case xml.StartElement:
				inside = e.Name.Local
				if !elements[inside] {
					t.Errorf("%s: an element %s", p.Name, inside)
				}
			case xml.CharData:
				texts[inside] += string(e)
			}
		}
		want := strings.NewReplacer("\x00", "\ufffd", "\xff", "\ufffd").Replace(p.title())
		if got := strings.TrimSpace(texts["title"]); got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
	}
}

// TestPicturesInBrowser looks at all pictures in a page, and at one as a file.
func TestPicturesInBrowser(t *testing.T) {
	t.Parallel()
	browser := browsertest.Start(t)
	folder := t.TempDir()
	var page strings.Builder
	page.WriteString("<!doctype html><meta charset=utf-8><title>pictures</title><meta name=viewport content='width=device-width'><style>body{margin:16px}" + Style() + "</style>")
	for _, p := range samples() {
		page.WriteString(string(p.Inline()))
		if err := os.WriteFile(filepath.Join(folder, p.id()+".svg"), p.SVG(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "plot-page.html"), []byte(page.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range browsertest.Views() {
		browser.OpenFile(t, v, filepath.Join(folder, "plot-page.html")).Inspect(t, "plot-page")
		if v.Dark { // colours change no sizes
			browser.OpenFile(t, v, filepath.Join(folder, "plot-lines.svg")).Inspect(t, "plot-lines")
		}
	}
}

// TestNamesOfACloud: each dot has its whole name, in both forms of a picture.
func TestNamesOfACloud(t *testing.T) {
	cloud := sampleCloud()
	svg := Picture{Name: "cloud", Title: "cloud", Drawing: cloud}.SVG()
	_, wide, _ := strings.Cut(string(svg), `<g class="wide"`)
	wide, narrow, _ := strings.Cut(wide, `<g class="narrow"`)
	for form, text := range map[string]string{"wide": wide, "narrow": narrow} {
		var words strings.Builder
		for _, m := range regexp.MustCompile(`<text[^>]*>([^<]*)</text>`).FindAllStringSubmatch(text, -1) {
			words.WriteString(m[1] + " ")
		}
		for _, v := range cloud.Dots {
			if !strings.Contains(words.String(), v.Name+" ") {
				t.Errorf("%s: nothing is called %s in %s", form, v.Name, words.String())
			}
		}
	}
}

// TestIntersect: lines that cross, touch and miss each other, and boxes that a line goes through.
func TestIntersect(t *testing.T) {
	for _, c := range []struct {
		a, b [2]spot
		want bool
	}{
		{[2]spot{{0, 0}, {10, 10}}, [2]spot{{0, 10}, {10, 0}}, true},
		{[2]spot{{0, 0}, {10, 10}}, [2]spot{{10, 10}, {20, 0}}, true},
		{[2]spot{{0, 0}, {4, 4}}, [2]spot{{0, 10}, {10, 0}}, false},
		{[2]spot{{0, 0}, {10, 0}}, [2]spot{{20, 0}, {30, 0}}, false},
		{[2]spot{{0, 0}, {10, 0}}, [2]spot{{0, 5}, {10, 5}}, false},
	} {
		if intersect(c.a, c.b) != c.want || intersect(c.b, c.a) != c.want {
			t.Errorf("%v and %v meet: %v, want %v", c.a, c.b, !c.want, c.want)
		}
	}
	b := box{10, 10, 20, 20}
	for way, want := range map[[2]spot]bool{
		{{0, 0}, {30, 30}}: true, {{12, 12}, {18, 18}}: true, {{0, 15}, {15, 15}}: true, {{0, 0}, {30, 5}}: false, {{0, 25}, {30, 25}}: false,
	} {
		if b.meets(way) != want {
			t.Errorf("%v goes through %v: %v, want %v", way, b, !want, want)
		}
	}
}

// TestColours: text stands out from the paper by more than the 4.5 to 1 and lines by
// the 3 to 1 that WCAG 2.2 asks for.
func TestColours(t *testing.T) {
	for _, s := range []scheme{light(), dark()} {
		for _, c := range []string{s.ink, s.soft} {
			if r := contrast(t, c, s.paper); r < 6 {
				t.Errorf("text %s on %s: %.1f to 1", c, s.paper, r)
			}
		}
		for _, c := range s.lines {
			if r := contrast(t, c, s.paper); r < 3 {
				t.Errorf("line %s on %s: %.1f to 1", c, s.paper, r)
			}
			if r := contrast(t, c, s.shade); r < 2.5 {
				t.Errorf("line %s on the area %s: %.1f to 1", c, s.shade, r)
			}
		}
	}
}

// contrast is the ratio of luminances of two colours such as #0072b2.
func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a)+0.05, luminance(t, b)+0.05
	return max(x, y) / min(x, y)
}

func luminance(t *testing.T, c string) float64 {
	v, err := strconv.ParseUint(strings.TrimPrefix(c, "#"), 16, 24)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v uint64) float64 {
		f := float64(v&255) / 255
		if f <= 0.04045 {
			return f / 12.92
		}
		return math.Pow((f+0.055)/1.055, 2.4)
	}
	return 0.2126*part(v>>16) + 0.7152*part(v>>8) + 0.0722*part(v)
}
