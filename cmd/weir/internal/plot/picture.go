// Package plot draws integers as SVG: lines over time, shares, ranges, clouds of
// points, and how algorithms decide. The same input gives the same bytes.
//
// A picture is there twice in its SVG: 640 wide, and 400 wide with text that can
// be read on a phone. Its own style shows the one that fits, in the colours of a
// light or a dark page. Lines differ by dashes and
// markers and not only by colours.
//
// picture.go has what all pictures are made of, axis.go where values lie, then a file for
// each kind of drawing. It knows nothing of limits.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// MaxLines is how many lines one picture can tell apart. More repeat the first
// ones' colours with other dashes; take several pictures instead.
const MaxLines = len(dashes)

// Picture is a drawing with what is said of it. All texts may be anything; they
// are escaped.
type Picture struct {
	Name        string // unique in a page: letters, digits and "-"; others become "-"
	Title       string // what it shows, in a line
	Command     string // what made it, for a shell; may be empty
	Description string // what there is to see, for those who can't see it
	Drawing     Drawing
}

// Drawing is what a picture can be of: [Lines], [Panels], [Ranges], [Cloud],
// [Turns], [Windows] or [Bars].
type Drawing interface {
	// least is the height that it needs within a page this wide.
	least(f frame) px
	draw(c *canvas, b box, f frame)
}

// frame is one of the two forms of a picture.
type frame struct {
	class   string
	width   px
	font    px // the size of its text
	heading px // the size of its title
	labels  px // how wide labels beside a drawing may be
	zoom    px // how much it is enlarged to be as wide as the wide one, in tenths
}

func frames() []frame {
	return []frame{
		{class: "wide", width: 6400, font: 140, heading: 170, labels: 1750, zoom: 10},
		{class: "narrow", width: 4000, font: 125, heading: 140, labels: 950, zoom: 16},
	}
}

// pad is the empty border of a picture.
const pad px = 80

// line is the height of a line of text.
func (f frame) line() px { return f.font * 4 / 3 }

// SVG is the picture as a file of its own, with its command below it.
func (p Picture) SVG() []byte {
	return p.svg(frames(), ` xmlns="http://www.w3.org/2000/svg"`, "<style>"+Style()+"</style>", p.title())
}

// Inline is the picture as an element of a page that has [Style]. Its command is in
// its title, as that of a file is, but it is not drawn: a page tells it once.
func (p Picture) Inline() []byte {
	title := p.title()
	p.Command = ""
	return p.svg(frames(), "", "", title)
}

// Broad is Inline for a place that is 1120 wide, in one form: a page shows another one where there is less room.
func (p Picture) Broad() []byte {
	p.Name += "-broad"
	return p.svg([]frame{{class: "broad", width: 11200, font: 140, heading: 170, labels: 1750, zoom: 10}}, "", "", p.title())
}

// title is what those hear who can't see the picture.
func (p Picture) title() string {
	if p.Command == "" {
		return p.Title
	}
	return p.Title + " — " + p.Command
}

func (p Picture) svg(forms []frame, space, style, title string) []byte {
	var height px // of the wide form; the narrow one is enlarged to the same
	for _, f := range forms {
		height = max(height, (p.above(f)+p.Drawing.least(f)+p.below(f))*f.zoom/10)
	}
	id := p.id()
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg%s class="plot" viewBox="0 0 %v %v" width="%v" height="%v" role="img" aria-labelledby="%s-title %s-desc">`,
		space, forms[0].width, height, forms[0].width, height, id, id)
	fmt.Fprintf(&out, "\n<title id=\"%s-title\">%s</title>\n<desc id=\"%s-desc\">%s</desc>\n%s", id, escape(title), id, escape(p.Description), style)
	fmt.Fprintf(&out, `<pattern id="%s-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V6"/></pattern>`, id)
	fmt.Fprintf(&out, "\n"+`<rect class="paper" width="%v" height="%v" rx="6"/>`+"\n", forms[0].width, height)
	for _, f := range forms {
		c := &canvas{out: &out, id: id, font: f.font}
		fmt.Fprintf(&out, `<g class="%s"`, f.class)
		if f.zoom != 10 {
			fmt.Fprintf(&out, ` transform="scale(%v)"`, f.zoom)
		}
		out.WriteString(">\n")
		p.compose(c, f, height*10/f.zoom)
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// compose draws the title, the drawing, and the command below it.
func (p Picture) compose(c *canvas, f frame, height px) {
	y := pad
	for _, line := range p.heading(f) {
		y += f.heading * 5 / 4
		c.text("heading", pad, y-f.heading/4, line)
	}
	p.Drawing.draw(c, box{pad, p.above(f), f.width - pad, height - p.below(f)}, f)
	y = height - p.below(f) + f.line()/2
	for _, line := range p.command(f) {
		y += f.line()
		c.text("command", pad, y-f.font/4, line)
	}
}

func (p Picture) above(f frame) px {
	return pad + px(len(p.heading(f)))*f.heading*5/4 + f.font/2
}

func (p Picture) below(f frame) px {
	if p.Command == "" {
		return pad
	}
	return pad + px(len(p.command(f)))*f.line() + f.line()/2
}

func (p Picture) heading(f frame) []string {
	return wrap(p.Title, f.width-2*pad, f.heading*21/20, 4) // bold is wider
}

func (p Picture) command(f frame) []string {
	if p.Command == "" {
		return nil
	}
	columns := int((f.width - 2*pad) / (f.font * 62 / 100)) // of a fixed pitch
	return wrapColumns("$ "+p.Command, columns, 4)
}

func (p Picture) id() string {
	return "plot-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, p.Name)
}

// escape makes s the text of an element. A character that XML can't hold becomes U+FFFD.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}
