package plot

// Dot is one thing of a Cloud.
type Dot struct {
	Name string
	X, Y int64
}

// Cloud is things by two of their figures.
type Cloud struct {
	X, Y Axis
	Dots []Dot
}

func (d Cloud) least(f frame) px { return 20 * f.font }

func (d Cloud) xs() []int64 {
	out := make([]int64, len(d.Dots))
	for i, v := range d.Dots {
		out[i] = v.X
	}
	return out
}

func (d Cloud) ys() []int64 {
	out := make([]int64, len(d.Dots))
	for i, v := range d.Dots {
		out[i] = v.Y
	}
	return out
}

func (d Cloud) draw(c *canvas, b box, f frame) {
	b.top += f.line()
	b.bottom -= f.foot()
	y := upright(d.Y, b, f, d.ys())
	b.left += y.margin(f)
	b.right -= f.font
	x := level(d.X, b, f, d.xs())
	y.drawUpright(c, b, f)
	x.drawLevel(c, b, f)
	spots := make([]spot, len(d.Dots))
	var taken []box
	for i, v := range d.Dots {
		spots[i] = spot{x.at(v.X), y.at(v.Y)}
		taken = append(taken, around(spots[i], f.font/2, f.font/2))
	}
	for i, v := range d.Dots {
		c.marker(i, spots[i])
		name := cut(v.Name, b.width()/2, f.font)
		place := beside(spots[i], width(name, f.font), f, b, taken)
		taken = append(taken, place)
		middle := spot{(place.left + place.right) / 2, (place.top + place.bottom) / 2}
		if far := middle.y - spots[i].y; far > f.line() || far < -f.line() {
			c.line("thin", spots[i], spot{min(max(spots[i].x, place.left), place.right), middle.y - sign(far)*f.font/2})
		}
		c.text("halo", place.left, place.bottom-f.font/3, name)
	}
}

func sign(v px) px {
	if v < 0 {
		return -1
	}
	return 1
}

func around(s spot, across, up px) box {
	return box{s.x - across, s.y - up, s.x + across, s.y + up}
}

// beside is where a text of this width can stand near a spot without touching
// what is there: right of it, left of it, then further up and down.
func beside(s spot, w px, f frame, within box, taken []box) box {
	gap := f.font * 3 / 4
	right := box{s.x + gap, s.y - f.line()/2, s.x + gap + w, s.y + f.line()/2}
	left := box{s.x - gap - w, right.top, s.x - gap, right.bottom}
	for step := range px(12) {
		for _, up := range []px{-1, 1} {
			for _, at := range []box{right, left} {
				at.top += up * step * f.line() / 2
				at.bottom += up * step * f.line() / 2
				if within.holds(at) && free(at, taken) {
					return at
				}
			}
		}
	}
	return right
}

func free(b box, taken []box) bool {
	for _, t := range taken {
		if t.overlaps(b) {
			return false
		}
	}
	return true
}
