package plot

import (
	"bytes"
	"fmt"
	"strconv"
)

// px is a length in tenths of a pixel.
type px int64

// String is the length in pixels.
func (p px) String() string {
	sign := ""
	if p < 0 {
		sign, p = "-", -p
	}
	if p%10 == 0 {
		return sign + strconv.FormatInt(int64(p/10), 10)
	}
	return sign + strconv.FormatInt(int64(p/10), 10) + "." + strconv.FormatInt(int64(p%10), 10)
}

// box is a part of the picture; y grows downwards.
type box struct{ left, top, right, bottom px }

func (b box) width() px  { return b.right - b.left }
func (b box) height() px { return b.bottom - b.top }

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

func (b box) holds(o box) bool {
	return b.left <= o.left && o.right <= b.right && b.top <= o.top && o.bottom <= b.bottom
}

// spot is a place in the picture.
type spot struct{ x, y px }

// canvas writes elements. Its methods do nothing with what lies outside of a
// picture; they leave that to the browser, which cuts it off.
type canvas struct {
	out  *bytes.Buffer
	id   string // of the picture
	font px     // the size of text
}

// text writes a line that begins at x and stands on y.
func (c *canvas) text(class string, x, y px, s string) { c.write(class, "", x, y, s) }

// textEnd writes a line that ends at x.
func (c *canvas) textEnd(class string, x, y px, s string) { c.write(class, "end", x, y, s) }

// textMiddle writes a line around x.
func (c *canvas) textMiddle(class string, x, y px, s string) { c.write(class, "middle", x, y, s) }

func (c *canvas) write(class, anchor string, x, y px, s string) {
	fmt.Fprintf(c.out, `<text x="%v" y="%v"`, x, y)
	c.attribute("class", class)
	c.attribute("text-anchor", anchor)
	fmt.Fprintf(c.out, ">%s</text>\n", escape(s))
}

func (c *canvas) attribute(name, value string) {
	if value != "" {
		fmt.Fprintf(c.out, ` %s="%s"`, name, value)
	}
}

func (c *canvas) line(class string, from, to spot) {
	fmt.Fprintf(c.out, `<path class="%s" d="M%v %vL%v %v"/>`+"\n", class, from.x, from.y, to.x, to.y)
}

func (c *canvas) rect(class string, b box) {
	fmt.Fprintf(c.out, `<rect class="%s" x="%v" y="%v" width="%v" height="%v"/>`+"\n", class, b.left, b.top, b.width(), b.height())
}

// hatched fills what spots enclose with slanted lines.
func (c *canvas) hatched(spots []spot) { c.through(`fill="url(#`+c.id+`-hatch)"`, spots, "Z") }

// path draws a line through spots.
func (c *canvas) path(class string, spots []spot) { c.through(`class="`+class+`"`, spots, "") }

// area fills what spots enclose.
func (c *canvas) area(class string, spots []spot) { c.through(`class="`+class+`"`, spots, "Z") }

func (c *canvas) through(attribute string, spots []spot, end string) {
	if len(spots) > 1 {
		fmt.Fprintf(c.out, `<path %s d="%s%s"/>`+"\n", attribute, route(spots), end)
	}
}

// route is the way through spots in the words of a path, by steps straight down
// or across where it goes so.
func route(spots []spot) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "M%v %v", spots[0].x, spots[0].y)
	for i, s := range spots[1:] {
		switch before := spots[i]; {
		case s == before:
		case s.y == before.y:
			fmt.Fprintf(&b, "H%v", s.x)
		case s.x == before.x:
			fmt.Fprintf(&b, "V%v", s.y)
		default:
			fmt.Fprintf(&b, "L%v %v", s.x, s.y)
		}
	}
	return b.String()
}

// marker draws the shape of the i-th line around a spot.
func (c *canvas) marker(i int, at spot) {
	class := fmt.Sprintf("m%d", i%MaxLines)
	fmt.Fprintf(c.out, `<path class="%s" transform="translate(%v %v)" d="%s"/>`+"\n", class, at.x, at.y, shapes[(i+i/MaxLines)%MaxLines])
}

// sign draws a shape that means something by itself.
func (c *canvas) sign(class, d string, at spot) {
	fmt.Fprintf(c.out, `<path class="%s" transform="translate(%v %v)" d="%s"/>`+"\n", class, at.x, at.y, d)
}

// Shapes around 0, 0 that mean something by themselves.
const (
	disc  = "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1 -5 0Z"
	cross = "M-5 -5L5 5M5 -5L-5 5"
	gem   = "M0 -6L6 0L0 6L-6 0Z"
	stop  = "M0 -9V9"
)
