package plot

// entry is what a line, an area or a sign is called.
type entry struct {
	name   string // "" is left out
	sample func(c *canvas, b box)
}

// legend says above a drawing that has no room beside it what its parts are.
type legend []entry

// height is how much room it takes in a width.
func (l legend) height(width px, f frame) px {
	return l.lay(width, f, func(entry, px, px) {})
}

func (l legend) draw(c *canvas, b box, f frame) {
	l.lay(b.width(), f, func(e entry, x, y px) {
		x, y = b.left+x, b.top+y
		e.sample(c, box{x, y - f.font*3/4, x + f.font*7/4, y})
		c.text("", x+f.font*9/4, y, e.name)
	})
}

// lay gives each entry its place, in as many lines as it takes.
func (l legend) lay(most px, f frame, put func(e entry, x, y px)) px {
	x, y := px(0), f.font
	for _, e := range l {
		if e.name == "" {
			continue
		}
		w := f.font*9/4 + width(e.name, f.font)
		if x > 0 && x+w > most {
			x, y = 0, y+f.line()*5/4
		}
		put(e, x, y)
		x += w + f.font
	}
	return y + f.font/2
}

// stroke is the sample of a line, and shape that of a sign.
func stroke(class string) func(c *canvas, b box) {
	return func(c *canvas, b box) {
		middle := (b.top + b.bottom) / 2
		c.line(class, spot{b.left, middle}, spot{b.right, middle})
	}
}

func shape(class, d string) func(c *canvas, b box) {
	return func(c *canvas, b box) { c.sign(class, d, spot{(b.left + b.right) / 2, (b.top + b.bottom) / 2}) }
}
