package plot

import "slices"

// Turn is a request of Turns.
type Turn struct {
	Name   string
	Note   string // what was decided, below the name
	At     int64  // when it came
	From   int64  // the earliest time that it may come
	To     int64  // until when it uses the pace up, if it passes
	Denied bool
}

// Turns is requests below each other, each with the stretch of time that decided
// about it: one that comes before its stretch begins is denied.
type Turns struct {
	X     Axis
	Turns []Turn
	From  string // what the beginning of a stretch is, written above the first that has two
	To    string // what its end is
}

func (t Turns) least(f frame) px {
	return t.row(f)*px(len(t.Turns)) + f.foot() + 2*f.line()
}

func (t Turns) row(f frame) px { return f.line()*2 + f.font }

func (t Turns) xs() []int64 {
	var out []int64
	for _, v := range t.Turns {
		out = append(out, v.At, v.From, v.To)
	}
	return out
}

func (t Turns) draw(c *canvas, b box, f frame) {
	b.bottom -= f.foot()
	b.left += f.font
	b.right -= 2 * f.font
	x := level(t.X, b, f, t.xs())
	for _, v := range x.ticks() {
		c.line("grid", spot{x.at(v), b.top}, spot{x.at(v), b.bottom})
	}
	x.drawLevel(c, b, f)
	head := t.head()
	each := (b.height() - 2*f.line()) / px(max(len(t.Turns), 1))
	y := b.top
	for i, v := range t.Turns {
		if i == head {
			y += 2 * f.line()
			t.drawHead(c, v, box{b.left, y - f.line(), b.right, y}, x, f)
		}
		t.drawTurn(c, v, box{b.left, y, b.right, y + each}, x, f)
		y += each
	}
}

// head is the first turn that has two ends: above it stands what these are.
func (t Turns) head() int {
	return slices.IndexFunc(t.Turns, func(v Turn) bool { return v.From < v.To })
}

func (t Turns) drawHead(c *canvas, v Turn, row box, x scale, f frame) {
	from := max(x.at(v.From)-width(t.From, f.font)/2, row.left-f.font/2)
	c.text("strong halo", from, row.bottom-f.font/3, t.From)
	to := max(x.at(v.To)-width(t.To, f.font)/2, from+width(t.From, f.font)*21/20+f.font)
	c.text("strong halo", min(to, row.right-width(t.To, f.font)*21/20), row.bottom-f.font/3, t.To)
	for _, at := range []px{x.at(v.From), x.at(v.To)} {
		c.line("lead", spot{at, row.bottom - f.font/10}, spot{at, row.bottom + f.font*3/5})
	}
}

func (t Turns) drawTurn(c *canvas, v Turn, row box, x scale, f frame) {
	y := row.top + f.font
	bar := box{x.at(v.From), y - f.font*2/5, x.at(v.To), y + f.font*2/5}
	c.rect("shade outline", bar)
	at := spot{x.at(v.At), y}
	if v.Denied {
		c.line("level", at, spot{bar.left, y})
		c.sign("mark", cross, at)
	} else {
		c.sign("solid", disc, at)
	}
	text := v.Name
	if v.Note != "" {
		text += ": " + v.Note
	}
	left := min(max(at.x-f.font/2, row.left), row.right-width(text, f.font))
	c.text("halo", max(left, row.left), y+f.font*8/5, cut(text, row.width(), f.font))
}
