package plot

import (
	"cmp"
	"slices"
)

// Dot is one thing of a Cloud.
type Dot struct {
	Name string
	X, Y int64
}

// Cloud is things by two of their figures.
type Cloud struct {
	X, Y Axis
	Dots []Dot
}

func (d Cloud) least(f frame) px { return max(20*f.font, px(len(d.Dots)+4)*f.line()*5/4) }

func (d Cloud) draw(c *canvas, b box, f frame) {
	b.top += f.line()
	b.bottom -= f.foot()
	var values values
	for _, v := range d.Dots {
		values.add(Point{v.X, v.Y})
	}
	y := upright(d.Y, b, f, values.ys)
	b.left += y.margin(f)
	b.right -= f.font
	x := level(d.X, b, f, values.xs)
	y.drawUpright(c, b, f)
	x.drawLevel(c, b, f)
	n := naming{f: f, within: b}
	order := make([]int, len(d.Dots))
	for i, v := range d.Dots {
		order[i] = i
		at := spot{x.at(v.X), y.at(v.Y)}
		n.dots = append(n.dots, at)
		n.taken = append(n.taken, box{at.x - f.font/2, at.y - f.font/2, at.x + f.font/2, at.y + f.font/2})
	}
	// From the top down, so that the lines that lead to names don't cross.
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(n.dots[i].y, n.dots[j].y) })
	for _, i := range order {
		name := cut(d.Dots[i].Name, b.width()*3/5, f.font)
		at := n.place(i, width(name, f.font))
		n.taken = append(n.taken, at)
		if lead := n.lead(n.dots[i], at); lead[0] != lead[1] {
			c.line("thin", lead[0], lead[1])
		}
		c.text("halo", at.left, at.bottom-f.font/3, name)
	}
	for i, at := range n.dots {
		c.marker(i, at)
	}
}

// naming finds places for the names of dots.
type naming struct {
	f      frame
	within box
	dots   []spot
	taken  []box // by the dots, in their order, and the names that have a place
}

// place is where the name of dot i can stand without touching what is there: right
// of it or left of it, else further up or down, so that nothing is between the two.
func (n *naming) place(i int, w px) box {
	s, gap := n.dots[i], n.f.font*3/4
	right := box{s.x + gap, s.y - n.f.line()/2, s.x + gap + w, s.y + n.f.line()/2}
	left := box{s.x - gap - w, right.top, s.x - gap, right.bottom}
	for _, strict := range []bool{true, false} {
		for step := range px(24) {
			for _, down := range []px{1, -1} {
				for _, at := range []box{right, left} {
					at.top += down * step * n.f.line() / 2
					at.bottom += down * step * n.f.line() / 2
					if n.within.holds(at) && n.free(at, i) && (!strict || n.clear(n.lead(s, at), i)) {
						return at
					}
				}
			}
		}
	}
	return right
}

// free is whether nothing is where a name would stand but its own dot.
func (n *naming) free(at box, own int) bool {
	for i, t := range n.taken {
		if i != own && t.overlaps(at) {
			return false
		}
	}
	return true
}

// lead is the line from a dot to its name; one point when the name is beside it.
func (n *naming) lead(s spot, at box) [2]spot {
	end := spot{at.left, (at.top + at.bottom) / 2}
	if at.right < s.x {
		end.x = at.right
	}
	if end.y == s.y {
		return [2]spot{s, s}
	}
	return [2]spot{s, end}
}

// clear is whether a line to a name crosses no other.
func (n *naming) clear(lead [2]spot, own int) bool {
	const parts = 16
	for k := range px(parts) {
		at := spot{lead[0].x + (lead[1].x-lead[0].x)*k/parts, lead[0].y + (lead[1].y-lead[0].y)*k/parts}
		for i, t := range n.taken {
			if i != own && i >= len(n.dots) && t.overlaps(box{at.x, at.y, at.x + 1, at.y + 1}) {
				return false
			}
		}
	}
	return true
}
