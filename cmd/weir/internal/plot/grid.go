package plot

import "slices"

// grid is the two scales of a drawing and the box between them.
type grid struct {
	inner box
	x, y  scale
}

// values are what is drawn along the two axes.
type values struct{ xs, ys []int64 }

func (v *values) add(points ...Point) {
	for _, p := range points {
		v.xs, v.ys = append(v.xs, p.X), append(v.ys, p.Y)
	}
}

func (v *values) levels(levels []Level) {
	for _, l := range levels {
		v.ys = append(v.ys, l.Value)
	}
}

// upright makes the scale up the left side of b.
func upright(a Axis, b box, f frame, values []int64) scale {
	return newScale(a, b.bottom, b.top, 3*f.font, values)
}

// level makes the scale along the bottom of b.
func level(a Axis, b box, f frame, values []int64) scale {
	room := 6 * f.font
	if a.Unit == Micros {
		room = 5 * f.font
	}
	return newScale(a, b.left, b.right, room, values)
}

// margin is how much room the labels of an upright scale take.
func (s scale) margin(f frame) px {
	var w px
	for _, v := range s.ticks() {
		w = max(w, width(s.label(v), f.font))
	}
	return w + f.font*2/3
}

// foot is how much room the labels and the name of a level scale take.
func (f frame) foot() px { return 2*f.line() + f.font/3 }

// drawUpright draws lines across the box for the ticks of a scale, and its name
// so far above it.
func (s scale) drawUpright(c *canvas, b box, above px, f frame) {
	for _, v := range s.ticks() {
		y := s.at(v)
		c.line("grid", spot{b.left, y}, spot{b.right, y})
		c.textEnd("soft", b.left-f.font/2, y+f.font/3, s.label(v))
	}
	if s.axis.Name != "" {
		c.text("soft", pad, b.top-above, cut(s.axis.Name, b.right-pad, f.font))
	}
	s.drawBreak(c, b.left, f)
}

// drawBreak draws the axis of a scale of powers that has a place for 0: between that and the powers
// it is broken, for no power leads there.
func (s scale) drawBreak(c *canvas, x px, f frame) {
	if s.zero == s.from {
		return
	}
	middle, gap, slant := (s.zero+s.from)/2, f.font/4, f.font/2
	c.line("axis", spot{x, s.zero}, spot{x, middle + gap})
	c.line("axis", spot{x, middle - gap}, spot{x, s.to})
	for _, y := range []px{middle + gap, middle - gap} {
		c.line("axis", spot{x - slant, y + slant/2}, spot{x + slant, y - slant/2})
	}
}

// labelled is which ticks of a level scale have a label: that of 0 or the first, and on both sides
// each that has room beside the one before.
func (s scale) labelled(f frame) map[int64]bool {
	ticks := s.ticks()
	from := max(slices.Index(ticks, 0), 0)
	out := map[int64]bool{}
	for _, way := range [][]int64{ticks[from:], reversed(ticks[:from+1])} {
		before := way[0]
		out[before] = true
		for _, v := range way[1:] {
			apart := max(s.at(v)-s.at(before), s.at(before)-s.at(v))
			if apart >= (width(s.label(v), f.font)+width(s.label(before), f.font)+f.font)/2 {
				out[v], before = true, v
			}
		}
	}
	return out
}

func reversed(values []int64) []int64 {
	out := slices.Clone(values)
	slices.Reverse(out)
	return out
}

// head is how much room the name of an upright scale takes.
func (f frame) head() px { return f.line() + f.font/2 }

// drawLevel draws the axis below the box, and what it is called.
func (s scale) drawLevel(c *canvas, b box, f frame) {
	c.line("axis", spot{b.left, b.bottom}, spot{b.right, b.bottom})
	labelled := s.labelled(f)
	for _, v := range s.ticks() {
		x := s.at(v)
		c.line("axis", spot{x, b.bottom}, spot{x, b.bottom + f.font/3})
		if !labelled[v] {
			continue
		}
		half := width(s.label(v), f.font) / 2
		c.textMiddle("soft", min(x, b.right+f.font-half), b.bottom+f.font/3+f.font, s.label(v))
	}
	if s.axis.Name != "" {
		c.textEnd("soft", b.right, b.bottom+f.font/3+f.font+f.line(), cut(s.axis.Name, b.right-pad, f.font))
	}
}
