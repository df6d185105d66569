package plot

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Dot is one thing of a Cloud.
type Dot struct {
	Name   string
	X, Y   int64
	Hollow bool
}

// Trail is a line of dots that belong together, such as one thing in several sizes.
type Trail struct {
	Name string // stands at its first dot, before the name of that
	Dots []Dot
}

// Cloud is things by two of their figures.
type Cloud struct {
	X, Y   Axis
	Dots   []Dot
	Trails []Trail
	Solid  string // what dots are, and Hollow what hollow ones; "" when there are none
	Hollow string
}

func (d Cloud) least(f frame) px {
	return max(24*f.font, px(len(d.Dots)+4)*f.line()*5/4) + d.legend().height(f.width-2*pad, f)
}

func (d Cloud) legend() legend {
	return legend{{d.Solid, shape("m0", disc)}, {d.Hollow, shape("hollow", disc)}}
}

// all are the dots, also those of trails.
func (d Cloud) all() []Dot {
	out := slices.Clone(d.Dots)
	for _, t := range d.Trails {
		out = append(out, t.Dots...)
	}
	return out
}

func (d Cloud) draw(c *canvas, b box, f frame) {
	d.legend().draw(c, b, f)
	b.top += d.legend().height(b.width(), f) + f.head()
	b.bottom -= f.foot()
	dots := d.all()
	var values values
	least := int64(math.MaxInt64)
	for _, v := range dots {
		values.add(Point{v.X, v.Y})
		least = min(least, v.X)
	}
	y := upright(d.Y, b, f, values.ys)
	b.left += y.margin(f)
	b.right -= f.font
	inner, n := b, naming{f: f, within: b}
	for _, v := range d.Dots {
		if v.X == least { // their names stand left of them, one below the other
			inner.left = max(inner.left, b.left+width(n.short(v.Name), f.font)+2*f.font)
		}
	}
	x := level(d.X, inner, f, values.xs)
	y.drawUpright(c, b, f.font, f)
	c.line("axis", spot{b.left, b.bottom}, spot{inner.left, b.bottom})
	x.drawLevel(c, inner, f)

	n.within = box{inner.left, b.top - f.line()/2, b.right, b.bottom}
	for _, v := range dots {
		n.dots = append(n.dots, spot{x.at(v.X), y.at(v.Y)})
	}
	for _, t := range d.Trails {
		for i := 1; i < len(t.Dots); i++ {
			if a, z := t.Dots[i-1], t.Dots[i]; d.Y.Base == 0 || a.Y > 0 && z.Y > 0 { // none leads over the break of an axis
				n.lines = append(n.lines, [2]spot{{x.at(a.X), y.at(a.Y)}, {x.at(z.X), y.at(z.Y)}})
			}
		}
	}
	for _, way := range n.lines {
		c.line("line l0", way[0], way[1])
	}
	n.column(d.Dots, least)
	i := len(d.Dots)
	for _, t := range d.Trails {
		for k, v := range t.Dots {
			name := v.Name
			if k == 0 {
				name = t.Name + " " + name
			}
			n.name(i, name)
			i++
		}
	}
	for i, v := range d.Dots {
		if v.X > least {
			n.name(i, v.Name)
		}
	}
	for _, v := range n.named {
		if v.lead[0] != v.lead[1] {
			c.line("lead", v.lead[0], v.lead[1])
		}
		for i, line := range v.text {
			c.text("halo", v.at.left, v.at.top+f.line()*px(i+1)-f.font/3, line)
		}
	}
	for i, v := range dots {
		if v.Hollow {
			c.sign("hollow", disc, n.dots[i])
		} else {
			c.sign("m0", disc, n.dots[i])
		}
	}
}

// naming finds places for the names of dots.
type naming struct {
	f      frame
	within box
	dots   []spot
	lines  [][2]spot
	named  []named
}

// named is the place of a name in some lines, and the line that leads there; that is one point when
// the name is beside its dot.
type named struct {
	text []string
	at   box
	lead [2]spot
}

// short is a name with at most as much room as a dot furthest left has for it.
func (n *naming) short(name string) string { return cut(name, n.f.width*2/5, n.f.font) }

// column puts the names of the dots that are furthest left one below the other, left of them in
// the order of their heights: so the lines that lead there can't cross.
func (n *naming) column(dots []Dot, least int64) {
	l := labels{f: n.f}
	var which []int
	for i, v := range dots {
		if v.X == least {
			which = append(which, i)
		}
	}
	slices.SortStableFunc(which, func(i, j int) int { return cmp.Compare(n.dots[i].y, n.dots[j].y) })
	order := make([]int, len(which))
	for k, i := range which {
		order[k] = k
		l.names = append(l.names, label{text: []string{n.short(dots[i].Name)}, ideal: n.dots[i].y})
	}
	l.place(order, n.within)
	for k, i := range which {
		right := n.dots[i].x - n.f.font*3/2
		at := box{right - width(l.names[k].text[0], n.f.font), l.names[k].top, right, l.names[k].top + n.f.line()}
		end := spot{right + n.f.font/4, (at.top + at.bottom) / 2}
		n.named = append(n.named, named{l.names[k].text, at, [2]spot{{n.dots[i].x - n.f.font/2, n.dots[i].y}, end}})
	}
}

// name finds a place for the name of dot i, in the fewest lines that have one: beside it, above or
// below, else further up or down with a line that leads there.
func (n *naming) name(i int, name string) {
	s, gap := n.dots[i], n.f.font*3/4
	for lines := 1; lines <= 3 && name != ""; lines++ {
		text := wrap(name, width(name, n.f.font)*5/px(4*lines)+px(2-min(lines, 2))*n.f.font, n.f.font, lines)
		if strings.Join(text, " ") != name {
			continue // within words there is no good place for a break
		}
		var w px
		for _, line := range text {
			w = max(w, width(line, n.f.font))
		}
		half, right := px(len(text))*n.f.line()/2, min(s.x+gap+w, n.within.right)
		for step := range px(40) {
			for _, up := range []px{-1, 1} {
				for _, at := range []box{
					{right - w, s.y - half, right, s.y + half},
					{s.x - gap - w, s.y - half, s.x - gap, s.y + half},
					{s.x - w/2, s.y - gap - 2*half, s.x + w - w/2, s.y - gap},
				} {
					at.top += up * step * n.f.line() / 2
					at.bottom += up * step * n.f.line() / 2
					if v := (named{text, at, n.lead(s, at, step)}); n.free(v, i) {
						n.named = append(n.named, v)
						return
					}
				}
			}
		}
	}
	// There is no room: the name is as much of it as fits beside the dot, or else left out.
	right := min(s.x+gap+width(name, n.f.font), n.within.right)
	v := named{[]string{cut(name, right-s.x-gap, n.f.font)}, box{s.x + gap, s.y - n.f.line()/2, right, s.y + n.f.line()/2}, [2]spot{s, s}}
	if right-s.x > 4*n.f.font && n.free(v, i) {
		n.named = append(n.named, v)
	}
}

// lead is the line from a dot to a name that is so many steps up or down from beside it.
func (n *naming) lead(s spot, at box, step px) [2]spot {
	end := spot{min(max(s.x, at.left), at.right), at.bottom}
	switch {
	case step == 0:
		return [2]spot{s, s}
	case at.left > s.x:
		end = spot{at.left - n.f.font/4, (at.top + at.bottom) / 2}
	case at.right < s.x:
		end = spot{at.right + n.f.font/4, (at.top + at.bottom) / 2}
	case at.top > s.y:
		end.y = at.top
	}
	return [2]spot{s, end}
}

// free is whether a name and the line to it touch no other name, dot or line.
func (n *naming) free(v named, own int) bool {
	if !n.within.holds(v.at) {
		return false
	}
	r := n.f.font / 2
	around := func(s spot) box { return box{s.x - r, s.y - r, s.x + r, s.y + r} }
	for _, s := range n.dots {
		apart := !around(s).overlaps(around(n.dots[own])) // else a line must begin in the other
		if around(s).overlaps(v.at) || apart && around(s).meets(v.lead) {
			return false
		}
	}
	for _, o := range n.named {
		if o.at.overlaps(v.at) || o.at.meets(v.lead) || v.at.meets(o.lead) || intersect(v.lead, o.lead) {
			return false
		}
	}
	for _, way := range n.lines {
		if v.at.meets(way) || intersect(v.lead, way) && way[0] != v.lead[0] && way[1] != v.lead[0] {
			return false
		}
	}
	return true
}

// meets is whether a line goes through the box.
func (b box) meets(way [2]spot) bool {
	if way[0] == way[1] {
		return false
	}
	corners := [...]spot{{b.left, b.top}, {b.right, b.top}, {b.right, b.bottom}, {b.left, b.bottom}}
	for i, from := range corners {
		if intersect(way, [2]spot{from, corners[(i+1)%4]}) {
			return true
		}
	}
	return b.overlaps(box{way[0].x, way[0].y, way[0].x + 1, way[0].y + 1})
}

// intersect is whether two lines have a point in common.
func intersect(a, z [2]spot) bool {
	if a[0] == a[1] || z[0] == z[1] {
		return false
	}
	side := func(l [2]spot, s spot) px { // of a line, on which a spot is
		return (l[1].x-l[0].x)*(s.y-l[0].y) - (l[1].y-l[0].y)*(s.x-l[0].x)
	}
	opposite := func(a, b px) bool { return a <= 0 && b >= 0 || a >= 0 && b <= 0 }
	touches := func(a0, a1, z0, z1 px) bool { return max(min(a0, a1), min(z0, z1)) <= min(max(a0, a1), max(z0, z1)) }
	return opposite(side(a, z[0]), side(a, z[1])) && opposite(side(z, a[0]), side(z, a[1])) &&
		touches(a[0].x, a[1].x, z[0].x, z[1].x) && touches(a[0].y, a[1].y, z[0].y, z[1].y)
}
