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
	From  string // what the beginning of a stretch is, written over the first
	To    string // what its end is
}

func (t Turns) least(f frame) px {
	return t.row(f)*px(len(t.Turns)) + f.foot() + 3*f.line()
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
	b.top += 2 * f.line()
	b.bottom -= f.foot()
	b.left += f.font
	b.right -= 2 * f.font
	x := level(t.X, b, f, t.xs())
	for _, v := range x.ticks() {
		c.line("grid", spot{x.at(v), b.top}, spot{x.at(v), b.bottom})
	}
	x.drawLevel(c, b, f)
	each := b.height() / px(max(len(t.Turns), 1))
	t.head(c, b, each, x, f)
	for i, v := range t.Turns {
		t.drawTurn(c, v, box{b.left, b.top + px(i)*each, b.right, b.top + px(i+1)*each}, x, f)
	}
}

// head says what the ends of stretches are, and leads from there to the first that
// has two.
func (t Turns) head(c *canvas, row box, each px, x scale, f frame) {
	first := slices.IndexFunc(t.Turns, func(v Turn) bool { return v.From < v.To })
	if first < 0 {
		return
	}
	v, y := t.Turns[first], row.top-f.font/2
	from := max(x.at(v.From)-width(t.From, f.font)/2, row.left)
	c.text("strong", from, y, t.From)
	to := max(x.at(v.To)-width(t.To, f.font)/2, from+width(t.From, f.font)*21/20+f.font)
	c.text("strong", min(to, row.right-width(t.To, f.font)*21/20), y, t.To)
	for _, at := range []px{x.at(v.From), x.at(v.To)} {
		c.line("thin", spot{at, y + f.font/4}, spot{at, row.top + each*px(first) + f.font})
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
