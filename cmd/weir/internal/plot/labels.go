package plot

import (
	"cmp"
	"slices"
)

// labels are the names that stand to the right of a drawing.
type labels struct {
	f     frame
	names []label
}

type label struct {
	text  []string
	sign  func(c *canvas, at spot) // nil is none
	ideal px                       // where its middle would best be
	top   px
}

// names are the labels of the lines, each with the line's marker.
func (l Lines) names(f frame) labels {
	out := labels{f: f}
	for i, line := range l.Lines {
		n := label{text: wrap(line.Name, f.labels-2*f.font, f.font, 3)}
		switch {
		case len(l.Lines) == 1:
		case line.Truth:
			n.sign = func(c *canvas, at spot) { c.line("truth", spot{at.x - f.font/2, at.y}, spot{at.x + f.font/2, at.y}) }
		default:
			n.sign = func(c *canvas, at spot) { c.marker(i, at) }
		}
		out.names = append(out.names, n)
	}
	return out
}

// width is how much room they take: none when nothing has a name.
func (l labels) width() px {
	var w px
	for _, n := range l.names {
		for _, line := range n.text {
			w = max(w, width(line, l.f.font))
		}
	}
	if w == 0 {
		return l.f.font
	}
	return w + 2*l.f.font + l.f.font/2
}

func (l labels) height(i int) px { return px(len(l.names[i].text)) * l.f.line() }

// draw puts each as near to where its line ends as the others let it, and leads
// there by a thin line.
func (l labels) draw(c *canvas, b box, ends []spot) {
	order := make([]int, len(l.names))
	for i := range order {
		order[i] = i
		l.names[i].ideal = ends[i].y
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(l.names[i].ideal, l.names[j].ideal) })
	l.place(order, b)
	for _, i := range order {
		n := l.names[i]
		if len(n.text) == 0 {
			continue
		}
		middle := n.top + l.height(i)/2
		c.path("lead", []spot{ends[i], {b.right + l.f.font*2/3, middle}})
		if n.sign != nil {
			n.sign(c, spot{b.right + l.f.font*5/4, middle})
		}
		for k, line := range n.text {
			c.text("", b.right+2*l.f.font, n.top+l.f.line()*px(k)+l.f.font, line)
		}
	}
}

// place sets their tops, in order: each below the one before, none beyond the
// drawing as long as they fit beside it.
func (l labels) place(order []int, b box) {
	top := b.top
	for _, i := range order {
		l.names[i].top = max(top, l.names[i].ideal-l.height(i)/2)
		top = l.names[i].top + l.height(i)
	}
	bottom := max(b.bottom+l.f.line()/2, b.top)
	for _, i := range slices.Backward(order) {
		l.names[i].top = min(l.names[i].top, bottom-l.height(i))
		bottom = l.names[i].top
	}
}
