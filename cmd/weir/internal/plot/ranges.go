package plot

import "slices"

// Range is a row of Ranges.
type Range struct {
	Name  string
	Seen  int64 // a disc; below 0 is none
	Found int64 // a diamond; below 0 is none
	Bound int64 // the end of the line; below 0 is none: the line goes to the edge
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
	return r.rows(f) + f.foot() + r.legend().height(f.width-2*pad, f) + f.line()
}

// rows is the height of all rows, and row that of one: its name, and the range below it.
func (r Ranges) rows(f frame) px {
	var h px
	for _, v := range r.Ranges {
		h += r.row(v, f)
	}
	return h
}

func (r Ranges) row(v Range, f frame) px { return px(len(r.name(v, f)))*f.line() + f.font*7/4 }

// name is what stands left of the numbers, in at most two lines.
func (r Ranges) name(v Range, f frame) []string {
	return wrap(v.Name, f.width-2*pad-4*f.font-r.numbers(f), f.font*21/20, 2)
}

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
	free := (b.height() - r.rows(f)) / px(max(len(r.Ranges), 1))
	top := b.top
	for _, v := range r.Ranges {
		name := r.name(v, f)
		for i, line := range name {
			c.text("strong halo", b.left+f.font/2, top+px(i+1)*f.line(), line)
		}
		r.drawNumbers(c, v, spot{b.right, top + f.line()}, f)
		y := top + px(len(name))*f.line() + f.font
		top += r.row(v, f) + free
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

// number is a column of numbers, and the sign that stands before each.
type number struct {
	class, sign string
	of          func(v Range) int64
}

func (r Ranges) columns() []number {
	out := []number{{"m0", disc, func(v Range) int64 { return v.Seen }}}
	if r.Found != "" {
		out = append(out, number{"hollow", gem, func(v Range) int64 { return v.Found }})
	}
	return append(out, number{"mark", stop, func(v Range) int64 { return v.Bound }})
}

// drawNumbers writes the numbers of a row before where it ends, each behind its sign.
func (r Ranges) drawNumbers(c *canvas, v Range, end spot, f frame) {
	columns := r.columns()
	x := end.x - r.numbers(f)
	for _, column := range columns {
		x += r.widest(column, f)
		n := column.of(v)
		if n < 0 {
			continue
		}
		text := Grouped(n, ",")
		c.textEnd("halo", x, end.y, text)
		c.sign(column.class, column.sign, spot{x - width(text, f.font) - f.font*3/5, end.y - f.font/3})
	}
}

// numbers is how wide all columns are, and widest how wide one is.
func (r Ranges) numbers(f frame) px {
	var w px
	for _, column := range r.columns() {
		w += r.widest(column, f)
	}
	return w
}

func (r Ranges) widest(column number, f frame) px {
	var w px
	for _, v := range r.Ranges {
		w = max(w, width(Grouped(max(column.of(v), 0), ","), f.font))
	}
	return w + f.font*9/5
}

func (r Ranges) legend() legend {
	return legend{{r.Seen, shape("m0", disc)}, {r.Found, shape("hollow", gem)}, {r.Bound, shape("mark", stop)}}
}
