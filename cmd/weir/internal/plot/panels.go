package plot

// Panel is one of several drawings below each other: an area, and a line over it.
type Panel struct {
	Name    string
	Note    string  // stands at the right end, such as the panel's total
	Under   []Point // by X; steps
	Over    []Point // by X; steps
	Hatched bool    // what lies between the two is hatched
	Bound   int64   // a value of this panel worth a line; 0 is none
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
	Bound  string // what the panels' bounds are, if they have any
}

func (p Panels) least(f frame) px {
	return px(len(p.Panels))*(f.line()+5*f.font) + f.foot() + f.line() + p.legend().height(f.width-2*pad, f)
}

// values are those to fit the axes to.
func (p Panels) values() values {
	var v values
	for _, panel := range p.Panels {
		v.add(panel.Under...)
		v.add(panel.Over...)
		v.ys = append(v.ys, panel.Bound)
	}
	v.levels(p.Levels)
	return v
}

func (p Panels) draw(c *canvas, b box, f frame) {
	if len(p.Panels) == 0 {
		return
	}
	p.legend().draw(c, b, f)
	b.top += p.legend().height(b.width(), f) + f.line()
	c.text("soft", b.left, b.top-f.font/2, p.Y.Name)
	b.bottom -= f.foot()
	each := b.height() / px(len(p.Panels))
	first := box{b.left, b.top, b.right, b.top + each - f.line()}
	values := p.values()
	b.left += upright(p.Y, first, f, values.ys).margin(f)
	b.right -= f.font
	x := level(p.X, b, f, values.xs)
	for i, panel := range p.Panels {
		top := b.top + px(i)*each + f.line()
		at := box{b.left, top, b.right, top + each - f.line() - f.font/2}
		y := upright(Axis{Unit: p.Y.Unit, Min: p.Y.Min, Max: p.Y.Max}, at, f, values.ys)
		y.drawUpright(c, at, f.font, f)
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
	if panel.Bound > 0 {
		c.line("bound", spot{g.inner.left, g.y.at(panel.Bound)}, spot{g.inner.right, g.y.at(panel.Bound)})
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

// legend says what areas, lines and hatches are.
func (p Panels) legend() legend {
	corners := func(b box) []spot {
		return []spot{{b.left, b.top}, {b.right, b.top}, {b.right, b.bottom}, {b.left, b.bottom}, {b.left, b.top}}
	}
	l := legend{
		{p.Over, stroke("line l0")},
		{p.Under, func(c *canvas, b box) { c.rect("shade outline", b) }},
		{p.Hatch, func(c *canvas, b box) {
			c.hatched(corners(b))
			c.path("thin", corners(b))
		}},
	}
	for _, v := range p.Levels {
		l = append(l, entry{v.Name, stroke("level")})
	}
	return append(l, entry{p.Bound, stroke("bound")})
}
