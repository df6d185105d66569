package plot

import (
	"fmt"
	"strings"
)

// scheme is the colours of a light or a dark page. The colours of lines are the set of Okabe and
// Ito, made for people that see fewer colours, darkened or lightened until each stands out from the
// paper by 3 to 1.
type scheme struct {
	paper, ink, soft, grid, shade string
	lines                         [MaxLines]string
}

func light() scheme {
	return scheme{
		paper: "#ffffff", ink: "#1c2127", soft: "#525b66", grid: "#dde2e8", shade: "#e8ebef",
		lines: [...]string{"#0072b2", "#c94f00", "#00805c", "#a8457f", "#2f87b8", "#946200", "#4d4d4d", "#6f5bb5"},
	}
}

func dark() scheme {
	return scheme{
		paper: "#12161c", ink: "#e6e9ee", soft: "#a3adb8", grid: "#2c343e", shade: "#262d36",
		lines: [...]string{"#56b4e9", "#f0862e", "#1fbf91", "#dd8fbb", "#8fd0f5", "#e6b422", "#b8b8b8", "#ab9bf0"},
	}
}

// dashes and shapes tell lines apart where colours don't.
var (
	dashes = [...]string{"none", "9 4", "3 3", "12 4 3 4", "6 3", "2 5", "14 5", "8 3 2 3 2 3"}
	shapes = [MaxLines]string{
		"M-4 0A4 4 0 1 1 4 0A4 4 0 1 1 -4 0Z",                // disc
		"M-3.5 -3.5H3.5V3.5H-3.5Z",                           // square
		"M0 -5L4.5 3.5H-4.5Z",                                // triangle
		"M0 -5L5 0L0 5L-5 0Z",                                // diamond
		"M0 5L4.5 -3.5H-4.5Z",                                // triangle upside down
		"M-4 -1.5H-1.5V-4H1.5V-1.5H4V1.5H1.5V4H-1.5V1.5H-4Z", // plus
		"M-2 -5H2V5H-2Z",                                     // upright bar
		"M-5 -2H5V2H-5Z",                                     // lying bar
	}
)

// Style is the sheet that pictures need, for a page that has some inline. All
// of it is about elements in class "plot".
func Style() string {
	var b strings.Builder
	b.WriteString(`.plot{max-width:100%;height:auto;fill:none}` +
		`.plot text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}` +
		`.plot .narrow text{font-size:12.5px}.plot .heading{font-size:17px;font-weight:600}.plot .narrow .heading{font-size:14px}` +
		`.plot .command{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}` +
		`.plot .strong{font-weight:600}.plot .halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}` +
		`.plot .grid{stroke-width:1}.plot .axis{stroke-width:1}.plot .hatch{stroke-width:2.5}` +
		`.plot .line{stroke-width:2.2;stroke-linejoin:round}.plot .truth{stroke-width:2.6;stroke-linejoin:round}` +
		`.plot .thin,.plot .lead{stroke-width:1}.plot .level{stroke-width:1.5;stroke-dasharray:2 3}.plot .bound{stroke-width:2;stroke-dasharray:8 4}.plot .edge{stroke-width:1;stroke-dasharray:1 4}` +
		`.plot .hollow,.plot .mark{stroke-width:2}.plot .outline{stroke-width:1}`)
	for i, d := range dashes {
		fmt.Fprintf(&b, `.plot .l%d{stroke-dasharray:%s}`, i, d)
	}
	light().rules(&b)
	b.WriteString(`@media screen and (prefers-color-scheme:dark){`)
	dark().rules(&b)
	b.WriteString(`}.plot .narrow{display:none}@media (max-width:560px){.plot .wide{display:none}.plot .narrow{display:inline}}`)
	return b.String()
}

func (s scheme) rules(b *strings.Builder) {
	fmt.Fprintf(b, `.plot text{fill:%s}.plot .soft,.plot .command{fill:%s}.plot .halo{stroke:%s}.plot .paper{fill:%s}`, s.ink, s.soft, s.paper, s.paper)
	fmt.Fprintf(b, `.plot .shade{fill:%s}.plot .solid{fill:%s}.plot .grid{stroke:%s}`, s.shade, s.ink, s.grid)
	fmt.Fprintf(b, `.plot .axis,.plot .edge,.plot .thin,.plot .lead,.plot .outline,.plot .hatch{stroke:%s}.plot .truth,.plot .level,.plot .bound,.plot .mark{stroke:%s}`, s.soft, s.ink)
	fmt.Fprintf(b, `.plot .hollow{fill:%s;stroke:%s}`, s.paper, s.ink)
	for i, c := range s.lines {
		fmt.Fprintf(b, `.plot .l%d{stroke:%s}.plot .m%d{fill:%s;stroke:%s}.plot .a%d{fill:%s}`, i, c, i, c, s.paper, i, c)
	}
}
