package plot

// Measure is what a column of Bars shows: numbers, and beside them bars on a scale of its own.
type Measure struct {
	Name string
	Axis Axis // without a name
}

// Bar is a value in words, and as long as it is.
type Bar struct {
	Text  string
	Value int64
	Empty bool // there is no value, and Text says so
}

// BarRow is a row of Bars, with a bar for each measure. Rows that follow each other with the same
// name have it once.
type BarRow struct {
	Name, Of string
	Bars     []Bar
}

// BarGroup is rows of Bars that belong together.
type BarGroup struct {
	Name string
	Rows []BarRow
}

// Bars is rows of values by several measures. All bars of a measure have one scale.
type Bars struct {
	Measures []Measure
	Of       string // what the second names of rows are
	Groups   []BarGroup
}

func (d Bars) least(f frame) px {
	return d.head(f) + f.foot() + d.halves()*f.line()*9/16
}

// columns are where the measures begin and end, right of what the rows are called.
func (d Bars) columns(b box, f frame) []box {
	left := b.left + d.widest(f, func(r BarRow) string { return r.Name }) + d.of(f)
	each := (b.right - left) / px(max(len(d.Measures), 1))
	out := make([]box, len(d.Measures))
	for i := range out {
		out[i] = box{left + px(i)*each + f.font/2, b.top, left + px(i+1)*each, b.bottom}
	}
	return out
}

// widest is how much room texts of the rows take, with a gap.
func (d Bars) widest(f frame, text func(r BarRow) string) px {
	var w px
	for _, g := range d.Groups {
		for _, r := range g.Rows {
			w = max(w, width(text(r), f.font))
		}
	}
	return w + f.font/2
}

// of is how much room the second names take.
func (d Bars) of(f frame) px {
	return max(d.widest(f, func(r BarRow) string { return r.Of }), width(d.Of, f.font)+f.font/2)
}

// head is the height of the names of the measures.
func (d Bars) head(f frame) px {
	var lines int
	for i, c := range d.columns(box{pad, 0, f.width - pad, 0}, f) {
		lines = max(lines, len(wrap(d.Measures[i].Name, c.width(), f.font, 4)))
	}
	return px(lines)*f.line() + f.font/2
}

// halves is the height in halves of rows: groups have a row for their name, and half a one above it.
func (d Bars) halves() px {
	n := 3 * len(d.Groups)
	for _, g := range d.Groups {
		n += 2 * len(g.Rows)
	}
	return px(n)
}

func (d Bars) draw(c *canvas, b box, f frame) {
	columns := d.columns(b, f)
	head := d.head(f)
	inner := box{b.left, b.top + head, b.right, b.bottom - f.foot()}
	scales := make([]scale, len(d.Measures))
	if len(columns) > 0 {
		c.textEnd("soft", columns[0].left-f.font, b.top+f.font, d.Of)
	}
	for i, m := range d.Measures {
		for k, line := range wrap(m.Name, columns[i].width(), f.font, 4) {
			c.text("soft", columns[i].left, b.top+f.font+px(k)*f.line(), line)
		}
		at := inner
		at.left, at.right = columns[i].left+d.numbers(i, f), columns[i].right-f.font
		scales[i] = level(m.Axis, at, f, d.values(i))
		scales[i].drawLevel(c, at, f)
	}
	row := inner.height() * 2 / max(d.halves(), 1)
	y := inner.top
	for _, g := range d.Groups {
		y += row * 3 / 2
		c.text("strong halo", b.left, y-row/4, cut(g.Name, b.width(), f.font*21/20))
		rows := box{0, y, 0, y + px(len(g.Rows))*row}
		for i := range scales {
			for _, v := range scales[i].ticks() {
				c.line("grid", spot{scales[i].at(v), rows.top}, spot{scales[i].at(v), rows.bottom})
			}
		}
		before := ""
		for _, r := range g.Rows {
			y += row
			if r.Name != before {
				c.text("", b.left, y-row/4, r.Name)
				before = r.Name
			}
			c.textEnd("soft", columns[0].left-f.font, y-row/4, r.Of)
			for k, bar := range r.Bars {
				d.bar(c, bar, columns[k].left+d.numbers(k, f)-f.font/2, scales[k], box{0, y - row*3/4, 0, y - row/4 + f.font/10})
			}
		}
		for i := range scales { // over the bars
			c.line("axis", spot{scales[i].at(0), rows.top}, spot{scales[i].at(0), rows.bottom})
		}
	}
}

// bar draws a number that ends at x, and its bar between the edges of at.
func (d Bars) bar(c *canvas, v Bar, x px, s scale, at box) {
	c.textEnd("", x, at.bottom-c.font/10, v.Text)
	if v.Empty || v.Value == 0 {
		return
	}
	at.left, at.right = min(s.at(0), s.at(v.Value)), max(s.at(0), s.at(v.Value))
	if at.width() < 10 { // so that one can see it
		at.right = at.left + 10
	}
	c.rect("a1", at)
}

// numbers is how much room the numbers of a measure take, with a gap.
func (d Bars) numbers(i int, f frame) px {
	return d.widest(f, func(r BarRow) string { return r.Bars[i].Text }) + f.font/2
}

// values are those to fit the scale of a measure to.
func (d Bars) values(i int) []int64 {
	out := []int64{0}
	for _, g := range d.Groups {
		for _, r := range g.Rows {
			if !r.Bars[i].Empty {
				out = append(out, r.Bars[i].Value)
			}
		}
	}
	return out
}
