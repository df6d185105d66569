package plot

import "fmt"

// hostile is text that must come out as it went in.
const hostile = `<script>alert("1")</script> & ]]> 'x' ` + "\x00\xff" + `</title></svg>`

const sampleCommand = "weir simulate --limit '100/min fixed-window' --limit '100/min sliding-window 4' --seed 1"

// samples is a picture of each kind, two with texts that are too long and wicked.
func samples() []Picture {
	return []Picture{
		{Name: "lines", Title: "What three algorithms believe of the last minute", Command: sampleCommand, Description: "Three lines.", Drawing: sampleLines()},
		{Name: "panels", Title: "Passed and denied a second", Command: sampleCommand, Description: "Two panels.", Drawing: samplePanels()},
		{Name: "ranges", Title: "The most in any minute, beside the proved bound", Command: sampleCommand, Description: "Three ranges.", Drawing: sampleRanges()},
		{Name: "cloud", Title: "Memory against accuracy", Command: sampleCommand, Description: "Six dots.", Drawing: sampleCloud()},
		{Name: "turns", Title: "GCRA: a request passes if it does not come before TAT − burst", Command: sampleCommand, Description: "Four requests.", Drawing: sampleTurns()},
		{Name: "windows", Title: "Four whole counters, and the oldest by the part that is left", Description: "Five bars.", Drawing: sampleWindows()},
		{Name: "matrix", Title: "What passes beyond the limit, by nodes", Command: sampleCommand, Description: "Two groups of rows.", Drawing: sampleMatrix()},
		{Name: hostile, Title: hostile + hostile, Command: hostile, Description: hostile, Drawing: wicked(sampleLines())},
		{Name: "empty", Title: "Nothing", Drawing: Lines{}},
		{Name: "no-panels", Title: "Nothing", Drawing: Panels{}},
		{Name: "no-ranges", Title: "Nothing", Drawing: Ranges{}},
		{Name: "no-cloud", Title: "Nothing", Drawing: Cloud{X: Axis{Base: 2}, Y: Axis{Base: 10}}},
		{Name: "no-turns", Title: "Nothing", Drawing: Turns{}},
		{Name: "no-windows", Title: "Nothing", Drawing: Windows{}},
		{Name: "no-matrix", Title: "Nothing", Drawing: Matrix{}},
	}
}

// saw is a line that goes up from 0 by so much a second, and falls back now and then.
func saw(slope, fall int64) []Point {
	var out []Point
	for s := range int64(301) {
		out = append(out, Point{s * second, s % fall * slope})
	}
	return out
}

func sampleTime() Axis { return Axis{Name: "time", Unit: Micros, Max: 300 * second} }

func sampleLines() Lines {
	return Lines{
		X: sampleTime(), Y: Axis{Name: "events in the last 60 s"}, Levels: []Level{{"limit: 100", 100}}, Edges: []int64{60 * second, 120 * second},
		Lines: []Line{
			{Name: "true count", Points: saw(1, 150), Steps: true, Truth: true},
			{Name: "fixed-window", Points: saw(2, 60), Steps: true},
			{Name: "sliding-window", Points: saw(1, 149), Steps: true},
			{Name: "sliding-window 4", Points: saw(1, 148)},
		},
		Events: []Event{{Point{200 * second, 20}, false}, {Point{220 * second, 20}, true}},
	}
}

func wicked(l Lines) Lines {
	l.X.Name, l.Y.Name = hostile, hostile
	for i := range l.Lines {
		l.Lines[i].Name = hostile + l.Lines[i].Name
	}
	return l
}

func samplePanels() Panels {
	return Panels{
		X: sampleTime(), Y: Axis{Name: "requests a second"}, Over: "asked", Under: "passed", Hatch: "denied", Bound: "bound", Edges: []int64{60 * second},
		Levels: []Level{{"limit", 100}},
		Panels: []Panel{
			{Name: "100/min fixed-window", Note: "passed 912, denied 32", Under: saw(1, 60), Over: saw(1, 120), Hatched: true, Bound: 199},
			{Name: "100/min sliding-window 6 conservative", Note: "passed 912, denied 32", Under: saw(1, 100), Over: saw(1, 120)},
		},
	}
}

func sampleRanges() Ranges {
	return Ranges{
		X: Axis{Name: "events in one minute"}, Levels: []Level{{"limit", 100}}, Seen: "this traffic", Found: "worst traffic found", Bound: "proved bound",
		Ranges: []Range{
			{Name: "100/min", Note: "199 of 199", Seen: 143, Found: 199, Bound: 199},
			{Name: "100/min sliding-window 6 conservative", Note: "100 of 100", Seen: 97, Found: 100, Bound: 100},
			{Name: "a naive form", Note: "183", Seen: 120, Found: 183, Bound: -1},
		},
	}
}

func sampleCloud() Cloud {
	return Cloud{
		X: Axis{Name: "bytes of state a key", Base: 2}, Y: Axis{Name: "mean error of the believed count", Unit: Millionths, Base: 10},
		Dots: []Dot{
			{"fixed-window", 16, 310_000},
			{"sliding-window", 16, 30_000},
			{"sliding-window relaxed", 16, 29_000},
			{"sliding-window 6", 40, 8_000},
			{"sliding-window 60", 256, 1_000},
			{"sliding-log", 808, 0},
		},
	}
}

func sampleTurns() Turns {
	return Turns{
		X: Axis{Name: "time", Unit: Micros, Min: -2 * second, Max: 4 * second}, From: "TAT − burst", To: "TAT",
		Turns: []Turn{
			{Name: "first", Note: "allowed", From: -2 * second, To: second},
			{Name: "second", Note: "allowed", At: 200 * millisecond, From: -second, To: 2 * second},
			{Name: "third", Note: "denied, come back after 0.6 s", At: 400 * millisecond, From: second, To: 4 * second, Denied: true},
			{Name: "fourth", Note: "allowed", At: second, From: second, To: 4 * second},
		},
	}
}

func sampleMatrix() Matrix {
	row := func(name string, shares ...int64) MatrixRow {
		r := MatrixRow{Name: name}
		for _, s := range shares {
			r.Cells = append(r.Cells, Cell{fmt.Sprintf("%d %%", s/10_000), s})
		}
		return r
	}
	return Matrix{
		Columns: []string{"2 nodes", "10 nodes", "50 nodes"}, Bar: "most beyond the limit, of its count",
		Groups: []Group{
			{"as much as the limit", []MatrixRow{row("lease", 0, 0, 0), row("mesh", 0, 20_000, 130_000)}},
			{"ten times as much", []MatrixRow{row("lease", 0, 0, 0), row("a way with a very long name", 120_000, 690_000, 1_700_000)}},
		},
	}
}

func sampleWindows() Windows {
	return Windows{
		X: Axis{Name: "time", Unit: Micros, Min: 15 * second, Max: 90 * second}, Y: Axis{Name: "events counted"},
		From: 20 * second, To: 80 * second, Span: "the last 60 s", Sum: "2/3 × 20 + 25 + 30 + 18 + 5 = 91.3 of 100",
		Bars: []Bar{
			{From: 15 * second, To: 30 * second, Count: 20, Note: "2/3 × 20"},
			{From: 30 * second, To: 45 * second, Count: 25, Note: "25"},
			{From: 45 * second, To: 60 * second, Count: 30, Note: "30"},
			{From: 60 * second, To: 75 * second, Count: 18, Note: "18"},
			{From: 75 * second, To: 90 * second, Count: 5, Note: "5"},
		},
	}
}
