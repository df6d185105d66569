package plot

import "slices"

// Range is a row of Ranges.
type Range struct {
	Name  string
	Note  string // the same in words or numbers, at the right end
	Seen  int64  // a disc; below 0 is none
	Found int64  // a diamond; below 0 is none
	Bound int64  // the end of the line; below 0 is none: the line goes to the edge
}

// Ranges is how far things went beside how far they can go, a row each.
type Ranges struct {
	X      Axis
	Ranges []Range
	Levels []Level
	Seen   string // what discs are
	Found  string // what diamonds are; "" when there are none
	Bound  string // what the ends of the lines are
}

func (r Ranges) least(f frame) px {
	return r.row(f)*px(len(r.Ranges)) + f.foot() + r.legend().height(f.width-2*pad, f) + f.line()
}

// row is the height of a row: a line of text, and the range below it.
func (r Ranges) row(f frame) px { return f.line() + f.font*7/4 }

// xs are the values to fit the axis to.
func (r Ranges) xs() []int64 {
	out := []int64{0}
	for _, v := range r.Ranges {
		out = append(out, v.Seen, v.Found, v.Bound)
	}
	for _, v := range r.Levels {
		out = append(out, v.Value)
	}
	return slices.DeleteFunc(out, func(v int64) bool { return v < 0 })
}

func (r Ranges) draw(c *canvas, b box, f frame) {
	r.legend().draw(c, b, f)
	b.top += r.legend().height(b.width(), f) + f.line()
	b.bottom -= f.foot()
	b.left += f.font
	b.right -= 2 * f.font
	x := level(r.X, b, f, r.xs())
	for _, v := range x.ticks() {
		c.line("grid", spot{x.at(v), b.top}, spot{x.at(v), b.bottom})
	}
	for _, v := range r.Levels {
		c.line("level", spot{x.at(v.Value), b.top}, spot{x.at(v.Value), b.bottom})
		c.textMiddle("strong", x.at(v.Value), b.top-f.font/2, v.Name)
	}
	x.drawLevel(c, b, f)
	each := b.height() / px(max(len(r.Ranges), 1))
	for i, v := range r.Ranges {
		top := b.top + px(i)*each
		note := width(v.Note, f.font)
		c.text("strong halo", b.left+f.font/2, top+f.line(), cut(v.Name, b.width()-note-2*f.font, f.font*21/20))
		c.textEnd("halo", b.right, top+f.line(), v.Note)
		y := top + f.line() + f.font
		end := b.right
		if v.Bound >= 0 {
			end = x.at(v.Bound)
			c.sign("mark", stop, spot{end, y})
		}
		c.line("line l0", spot{x.at(0), y}, spot{end, y})
		if v.Found >= 0 {
			c.sign("hollow", gem, spot{x.at(v.Found), y})
		}
		if v.Seen >= 0 {
			c.sign("m0", disc, spot{x.at(v.Seen), y})
		}
	}
}

func (r Ranges) legend() legend {
	return legend{{r.Seen, shape("m0", disc)}, {r.Found, shape("hollow", gem)}, {r.Bound, shape("mark", stop)}}
}
