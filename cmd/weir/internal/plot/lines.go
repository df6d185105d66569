package plot

import (
	"fmt"
	"slices"
)

// Point is a value at a time, or at another place of the level axis.
type Point struct{ X, Y int64 }

// Line is one line of a picture.
type Line struct {
	Name   string  // stands beside the line's end
	Points []Point // by X
	Steps  bool    // a value holds until the next point; else the line goes straight there
	Truth  bool    // it is what the others are held against
}

// Level is a value of the upright axis worth a line of its own, such as a limit.
type Level struct {
	Name  string
	Value int64
}

// Event is something that was allowed, or denied, at a point.
type Event struct {
	Point
	Denied bool
	Note   string // stands above the drawing, where the event is
}

// Mark is an instant worth a line up with a name, such as that of a change.
type Mark struct {
	X    int64
	Name string // short: it stands at the upper end
}

// Lines is values over time. X and Y grow to what is drawn; give X its Min and
// Max when the time drawn is longer than the lines.
type Lines struct {
	X, Y   Axis
	Lines  []Line
	Levels []Level
	Edges  []int64 // instants worth a line up, such as the edges of windows
	Marks  []Mark  // by X
	Events []Event // an allowed one is a disc, a denied one a cross
	Notes  string  // what the notes of events are; "": they have none
	Passed string  // what discs are, and Denied what crosses; "": there is nothing to say
	Denied string
}

func (l Lines) least(f frame) px {
	return max(17*f.font, px(len(l.Lines))*f.line()*5/2) + f.foot() + l.above(f.width-2*pad, f)
}

// above is the height of what stands above the name of the upright axis.
func (l Lines) above(width px, f frame) px {
	h := px(0)
	if l.Passed != "" || l.Denied != "" {
		h += l.legend().height(width, f)
	}
	if l.Notes != "" {
		h += 2 * f.line() // what they are, and below the name of the axis they
	}
	return h
}

func (l Lines) legend() legend {
	return legend{{l.Passed, shape("solid", disc)}, {l.Denied, shape("mark", cross)}}
}

// values are those to fit the axes to.
func (l Lines) values() values {
	v := values{xs: slices.Clone(l.Edges)}
	for _, line := range l.Lines {
		v.add(line.Points...)
	}
	for _, e := range l.Events {
		v.add(e.Point)
	}
	for _, m := range l.Marks {
		v.xs = append(v.xs, m.X)
	}
	v.levels(l.Levels)
	return v
}

func (l Lines) draw(c *canvas, b box, f frame) {
	top := b.top
	if l.Passed != "" || l.Denied != "" {
		l.legend().draw(c, b, f)
		top += l.legend().height(b.width(), f)
	}
	b.top += l.above(b.width(), f) + f.head()
	notes := b.top - f.font*2/3
	if l.Notes != "" {
		c.text("soft", pad, top+f.font, cut(l.Notes, b.width(), f.font))
	}
	b.bottom -= f.foot()
	values := l.values()
	y := upright(l.Y, b, f, values.ys)
	b.left += y.margin(f)
	names := l.names(f)
	b.right -= names.width()
	x := level(l.X, b, f, values.xs)

	above := f.font
	if l.Notes != "" {
		above += f.line()
	}
	y.drawUpright(c, b, above, f)
	for _, at := range l.Edges {
		c.line("edge", spot{x.at(at), b.top}, spot{x.at(at), b.bottom})
	}
	l.drawMarks(c, b, f, x)
	l.drawAll(c, b, grid{b, x, y})
	x.drawLevel(c, b, f)
	for _, v := range l.Levels {
		at := y.at(v.Value)
		c.line("level", spot{b.left, at}, spot{b.right, at})
		c.text("halo", b.left+f.font/2, at-f.font/3, v.Name)
	}
	if l.Notes != "" {
		for _, e := range l.Events {
			at := x.at(e.X)
			c.textMiddle("", at, notes, e.Note)
			c.line("edge", spot{at, b.top}, spot{at, y.at(e.Y)})
		}
	}
	for _, e := range l.Events {
		at := spot{x.at(e.X), y.at(e.Y)}
		if e.Denied {
			c.sign("mark", cross, at)
		} else {
			c.sign("solid", disc, at)
		}
	}
	ends := make([]spot, len(l.Lines))
	for i, line := range l.Lines {
		end := last(line.Points)
		ends[i] = spot{x.at(end.X), y.at(end.Y)}
	}
	names.draw(c, b, ends)
}

// drawMarks draws a line for each mark, and its name left of it. Those that are too near to each other have one name: 2–4.
func (l Lines) drawMarks(c *canvas, b box, f frame, x scale) {
	for i := 0; i < len(l.Marks); {
		at, first, end := x.at(l.Marks[i].X), l.Marks[i], l.Marks[i]
		c.line("bound", spot{at, b.top}, spot{at, b.bottom})
		for i++; i < len(l.Marks) && x.at(l.Marks[i].X)-at < 3*f.font; i++ {
			end = l.Marks[i]
			c.line("bound", spot{x.at(end.X), b.top}, spot{x.at(end.X), b.bottom})
		}
		name := first.Name
		if end.Name != first.Name {
			name += "–" + end.Name
		}
		if left := at - f.font/4 - width(name, f.font); left >= b.left {
			c.textEnd("halo strong", at-f.font/4, b.top+f.font, name)
		} else {
			c.text("halo strong", x.at(end.X)+f.font/4, b.top+f.font, name)
		}
	}
}

// drawAll draws the lines: first what is true, as an area, so that the others
// stand out from it.
func (l Lines) drawAll(c *canvas, b box, g grid) {
	ways := make([][]spot, len(l.Lines))
	for i, line := range l.Lines {
		ways[i] = g.way(line)
		if line.Truth && len(ways[i]) > 1 {
			first, end := ways[i][0], last(ways[i])
			c.area("shade", append(slices.Clone(ways[i]), spot{end.x, b.bottom}, spot{first.x, b.bottom}))
		}
	}
	for i, line := range l.Lines {
		if line.Truth {
			c.path("truth", ways[i])
			continue
		}
		c.path(fmt.Sprintf("line l%d", i%MaxLines), ways[i])
	}
	for i, line := range l.Lines {
		if !line.Truth && len(l.Lines) > 1 {
			markAlong(c, i, len(l.Lines), ways[i], b)
		}
	}
}

// way is a line's spots. It keeps the first, the highest, the lowest and the last spot in each
// pixel's column.
func (g grid) way(line Line) []spot {
	var out []spot
	var column []spot
	flush := func() {
		if len(column) > 4 {
			high := slices.MinFunc(column, func(a, b spot) int { return int(a.y - b.y) })
			low := slices.MaxFunc(column, func(a, b spot) int { return int(a.y - b.y) })
			column = []spot{column[0], high, low, last(column)}
			slices.SortStableFunc(column, func(a, b spot) int { return int(a.x - b.x) })
		}
		out = append(out, column...)
		column = column[:0]
	}
	for _, p := range line.Points {
		s := spot{g.x.at(p.X), g.y.at(p.Y)}
		if len(column) > 0 && s.x/10 != column[0].x/10 {
			before := last(column)
			flush()
			if line.Steps {
				column = append(column, spot{s.x, before.y})
			}
		} else if line.Steps && len(column) > 0 {
			column = append(column, spot{s.x, last(column).y})
		}
		column = append(column, s)
	}
	flush()
	return out
}

// markAlong puts the i-th line's marker on it now and then, never where another
// line's is.
func markAlong(c *canvas, i, of int, way []spot, b box) {
	const marks = 5
	apart := b.width() / marks
	next := b.left + apart*px(2*i+1)/px(2*of)
	for j := 1; j < len(way); j++ {
		for ; next <= way[j].x; next += apart {
			if next < way[j-1].x {
				continue
			}
			a, z := way[j-1], way[j]
			at := spot{next, z.y}
			if z.x > a.x {
				at.y = a.y + (z.y-a.y)*(next-a.x)/(z.x-a.x)
			}
			c.marker(i, at)
		}
	}
}

func last[T any](s []T) (t T) {
	if len(s) > 0 {
		t = s[len(s)-1]
	}
	return t
}
