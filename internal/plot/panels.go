package plot

import "slices"

// Panel is one of several drawings below each other: an area, and a line over it.
type Panel struct {
	Name    string
	Note    string  // stands at the right end, such as the panel's total
	Under   []Point // by X; steps
	Over    []Point // by X; steps
	Hatched bool    // what lies between the two is hatched
}

// Panels is several drawings over the same time, to be held against each other.
type Panels struct {
	X, Y   Axis
	Panels []Panel
	Levels []Level
	Edges  []int64
	Under  string // what the areas are
	Over   string // what the lines are
	Hatch  string // what is hatched, if anything is
}

func (p Panels) least(f frame) px {
	return px(len(p.Panels))*(f.line()+p.lowest(f)) + f.foot() + 2*f.line()
}

// lowest is the least height of one panel.
func (p Panels) lowest(f frame) px { return 5 * f.font }

// xs and ys are the values to fit the axes to.
func (p Panels) xs() []int64 {
	var out []int64
	for _, panel := range p.Panels {
		for _, v := range slices.Concat(panel.Under, panel.Over) {
			out = append(out, v.X)
		}
	}
	return out
}

func (p Panels) ys() []int64 {
	var out []int64
	for _, panel := range p.Panels {
		for _, v := range slices.Concat(panel.Under, panel.Over) {
			out = append(out, v.Y)
		}
	}
	for _, v := range p.Levels {
		out = append(out, v.Value)
	}
	return out
}

func (p Panels) draw(c *canvas, b box, f frame) {
	if len(p.Panels) == 0 {
		return
	}
	p.legend(c, b, f)
	b.top += 2 * f.line()
	b.bottom -= f.foot()
	each := b.height() / px(len(p.Panels))
	first := box{b.left, b.top, b.right, b.top + each - f.line()}
	b.left += upright(p.Y, first, f, p.ys()).margin(f)
	b.right -= f.font
	x := level(p.X, b, f, p.xs())
	for i, panel := range p.Panels {
		top := b.top + px(i)*each + f.line()
		at := box{b.left, top, b.right, top + each - f.line() - f.font/2}
		y := upright(Axis{Unit: p.Y.Unit, Min: p.Y.Min, Max: p.Y.Max}, at, f, p.ys())
		y.drawUpright(c, at, f)
		p.drawPanel(c, panel, grid{at, x, y})
		note := width(panel.Note, f.font)
		c.text("strong", at.left, top-f.font/3, cut(panel.Name, at.width()-note-f.font, f.font*21/20))
		c.textEnd("soft", at.right, top-f.font/3, panel.Note)
		if i == len(p.Panels)-1 {
			x.drawLevel(c, at, f)
		}
	}
}

func (p Panels) drawPanel(c *canvas, panel Panel, g grid) {
	under := g.way(Line{Points: panel.Under, Steps: true})
	over := g.way(Line{Points: panel.Over, Steps: true})
	if len(under) > 0 {
		c.area("shade", append(under[:len(under):len(under)], spot{last(under).x, g.inner.bottom}, spot{under[0].x, g.inner.bottom}))
	}
	if panel.Hatched {
		c.hatched(between(over, under))
	}
	c.path("thin", under)
	c.path("line l0", over)
	for _, at := range p.Edges {
		c.line("edge", spot{g.x.at(at), g.inner.top}, spot{g.x.at(at), g.inner.bottom})
	}
	for _, v := range p.Levels {
		c.line("level", spot{g.inner.left, g.y.at(v.Value)}, spot{g.inner.right, g.y.at(v.Value)})
	}
}

// between is the way around what lies between two lines.
func between(a, b []spot) []spot {
	out := append([]spot(nil), a...)
	for i := len(b) - 1; i >= 0; i-- {
		out = append(out, b[i])
	}
	return out
}

// legend says above the panels what areas, lines and hatches are: panels have no
// room beside them.
func (p Panels) legend(c *canvas, b box, f frame) {
	x, y := b.left, b.top+f.font
	item := func(name string, sample func(box)) {
		if name == "" {
			return
		}
		sample(box{x, y - f.font*3/4, x + 2*f.font, y})
		x += 2*f.font + f.font/2
		c.text("", x, y, name)
		x += width(name, f.font) + f.font
	}
	item(p.Over, func(s box) {
		middle := (s.top + s.bottom) / 2
		c.line("line l0", spot{s.left, middle}, spot{s.right, middle})
	})
	item(p.Under, func(s box) { c.rect("shade outline", s) })
	item(p.Hatch, func(s box) {
		c.hatched([]spot{{s.left, s.top}, {s.right, s.top}, {s.right, s.bottom}, {s.left, s.bottom}})
		c.path("thin", []spot{{s.left, s.top}, {s.right, s.top}, {s.right, s.bottom}, {s.left, s.bottom}, {s.left, s.top}})
	})
	for _, v := range p.Levels {
		item(v.Name, func(s box) {
			middle := (s.top + s.bottom) / 2
			c.line("level", spot{s.left, middle}, spot{s.right, middle})
		})
	}
	if p.Y.Name != "" {
		c.text("soft", b.left, y+f.line(), p.Y.Name)
	}
}
