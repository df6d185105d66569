package plot

// Cell is one field of a Matrix.
type Cell struct {
	Text  string
	Share int64 // of its width that is filled, in millionths; more than all is all
}

// MatrixRow is a row of a Matrix, with a cell for each column.
type MatrixRow struct {
	Name  string
	Cells []Cell
}

// Group is rows of a Matrix that belong together.
type Group struct {
	Name string
	Rows []MatrixRow
}

// Matrix is cells in rows and columns, each with a text over a bar.
type Matrix struct {
	Columns []string
	Groups  []Group
	Bar     string // what the bars are
}

func (m Matrix) least(f frame) px {
	return m.head(f.width-2*pad, f) + m.rows()*(f.line()+f.font)
}

// head is the height of what stands above the first group.
func (m Matrix) head(width px, f frame) px { return m.legend().height(width, f) + f.line() }

// rows is how many rows there are, with those that name the groups.
func (m Matrix) rows() px {
	n := len(m.Groups)
	for _, g := range m.Groups {
		n += len(g.Rows)
	}
	return px(n)
}

func (m Matrix) legend() legend {
	return legend{{m.Bar, func(c *canvas, b box) { c.rect("a1", b) }}}
}

func (m Matrix) draw(c *canvas, b box, f frame) {
	m.legend().draw(c, b, f)
	y := b.top + m.head(b.width(), f)
	row := (b.bottom - y - f.font/2) / max(m.rows(), 1)
	names := f.labels * 2 / 3
	each := (b.width() - names) / px(max(len(m.Columns), 1))
	for i, name := range m.Columns {
		c.textEnd("soft", b.left+names+px(i+1)*each-f.font/2, y, cut(name, each-f.font, f.font))
	}
	for _, g := range m.Groups {
		y += row
		c.text("strong", b.left, y, cut(g.Name, b.width(), f.font*21/20))
		for _, r := range g.Rows {
			y += row
			c.text("", b.left, y, cut(r.Name, names-f.font/2, f.font))
			for i, cell := range r.Cells {
				left := b.left + names + px(i)*each + f.font/2
				m.cell(c, cell, box{left, y, left + each - f.font, y + f.font/2}, f)
			}
		}
	}
}

// cell draws a cell whose bar is b.
func (m Matrix) cell(c *canvas, cell Cell, b box, f frame) {
	c.textEnd("", b.right, b.top-f.font/4, cut(cell.Text, b.width(), f.font))
	c.rect("shade", b)
	if full := min(px(cell.Share)*b.width()/1_000_000, b.width()); full > 0 {
		c.rect("a1", box{b.left, b.top, b.left + max(full, 10), b.bottom})
	}
}
