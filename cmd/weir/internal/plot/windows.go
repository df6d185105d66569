package plot

// SubWindow is a sub-window: what was counted in it, and how much of it counts now.
type SubWindow struct {
	From, To int64 // instants
	Count    int64
	Note     string // over it, in at most two lines
}

// Windows is the sub-windows of a period that ends now, and what each adds.
type Windows struct {
	X, Y Axis
	Bars []SubWindow
	From int64  // the period
	To   int64  // now
	Span string // what the period is called
	Sum  string // what they add up to
}

func (w Windows) least(f frame) px { return 20*f.font + 3*f.line() }

// values are those to fit the axes to.
func (w Windows) values() values {
	v := values{xs: []int64{w.From, w.To}}
	for _, bar := range w.Bars {
		v.add(Point{bar.From, bar.Count}, Point{bar.To, bar.Count})
	}
	return v
}

func (w Windows) draw(c *canvas, b box, f frame) {
	sum := wrap(w.Sum, b.width(), f.font*21/20, 3)
	for _, line := range sum {
		b.top += f.line()
		c.text("strong", b.left, b.top, line)
	}
	b.top += f.line() + f.line()/2
	b.bottom -= f.foot()
	head := box{b.left, b.top, b.right, b.top + 7*f.line()/2}
	c.text("soft", b.left, head.top, w.Y.Name)
	values := w.values()
	y := upright(Axis{Unit: w.Y.Unit, Min: w.Y.Min, Max: w.Y.Max}, box{b.left, head.bottom, b.right, b.bottom}, f, values.ys)
	b.left += y.margin(f)
	b.right -= f.font
	x := level(w.X, b, f, values.xs)
	b.top = head.bottom
	y.drawUpright(c, b, f.font, f)
	for _, v := range w.Bars {
		w.bar(c, v, grid{b, x, y})
	}
	x.drawLevel(c, b, f)
	w.span(c, x, head.bottom-2*f.line(), b.bottom, f)
	for _, v := range w.Bars {
		room, middle := x.at(v.To)-x.at(v.From)+f.font, (x.at(v.From)+x.at(min(v.To, w.To)))/2
		if v.From < w.From && w.From < v.To { // left of where the period begins
			room, middle = x.at(w.From)-x.at(v.From), (x.at(v.From)+x.at(w.From))/2
		}
		note := wrap(v.Note, room, f.font, 2)
		for i, line := range note {
			c.textMiddle("halo", middle, y.at(v.Count)-f.font/3-f.line()*px(len(note)-1-i), line)
		}
	}
}

// bar draws a sub-window as high as its count. The part of the oldest that no longer counts is
// hatched; the newest ends now.
func (w Windows) bar(c *canvas, v SubWindow, g grid) {
	at := box{g.x.at(v.From) + 10, g.y.at(v.Count), g.x.at(min(v.To, w.To)) - 10, g.inner.bottom}
	gone := g.x.at(max(min(w.From, v.To), v.From))
	if gone > at.left {
		c.hatched([]spot{{at.left, at.top}, {gone, at.top}, {gone, at.bottom}, {at.left, at.bottom}})
		c.rect("outline", box{at.left, at.top, gone, at.bottom})
	}
	c.rect("a0", box{max(gone, at.left), at.top, at.right, at.bottom})
}

// span draws the period as a bracket from its beginning to now.
func (w Windows) span(c *canvas, x scale, y, bottom px, f frame) {
	from, to := x.at(w.From), x.at(w.To)
	c.path("mark", []spot{{from, y + f.font/2}, {from, y}, {to, y}, {to, y + f.font/2}})
	for _, at := range []px{from, to} {
		c.line("level", spot{at, y + f.font/2}, spot{at, bottom})
	}
	c.textMiddle("strong", (from+to)/2, y-f.font/2, w.Span)
}
