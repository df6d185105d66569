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
		{Name: "bars", Title: "What passes beyond the limit, by nodes", Command: sampleCommand, Description: "Two groups of rows.", Drawing: sampleBars()},
		{Name: hostile, Title: hostile + hostile, Command: hostile, Description: hostile, Drawing: wicked(sampleLines())},
		{Name: "empty", Title: "Nothing", Drawing: Lines{}},
		{Name: "no-panels", Title: "Nothing", Drawing: Panels{}},
		{Name: "no-ranges", Title: "Nothing", Drawing: Ranges{}},
		{Name: "no-cloud", Title: "Nothing", Drawing: Cloud{X: Axis{Base: 2}, Y: Axis{Base: 10}}},
		{Name: "no-turns", Title: "Nothing", Drawing: Turns{}},
		{Name: "no-windows", Title: "Nothing", Drawing: Windows{}},
		{Name: "no-bars", Title: "Nothing", Drawing: Bars{}},
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
		Events: []Event{{Point{200 * second, 20}, false, "1"}, {Point{220 * second, 20}, true, "2"}}, Notes: "asked for", Passed: "allowed", Denied: "denied",
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
			{Name: "100/min", Seen: 143, Found: 199, Bound: 199},
			{Name: "100/min sliding-window 6 conservative", Seen: 97, Found: 100, Bound: 100},
			{Name: "a naive form", Seen: 120, Found: 183, Bound: -1},
		},
	}
}

func sampleCloud() Cloud {
	return Cloud{
		X: Axis{Name: "bytes of state a key", Base: 2}, Y: Axis{Name: "mean error of the believed count", Unit: Millionths, Base: 10},
		Solid: "keeps a count", Hollow: "keeps a pace",
		Dots: []Dot{
			{"gcra", 16, 540_000, true},
			{"fixed-window", 16, 310_000, false},
			{"fixed-window anchored", 16, 309_000, false},
			{"sliding-window relaxed", 16, 29_000, false},
			{"sliding-window 10 conservative", 56, 57_000, false},
			{"other", 58, 52_000, false},
			{"warm-up 10s", 32, 631_000, true},
			{"sliding-log", 808, 0, false},
		},
		Trails: []Trail{{"sliding-window", []Dot{{"1", 16, 30_000, false}, {"4", 32, 12_000, false}, {"10", 56, 8_000, false}, {"60", 256, 1_000, false}, {"", 280, 0, false}}}},
	}
}

func sampleTurns() Turns {
	return Turns{
		X: Axis{Name: "time", Unit: Micros, Min: -2 * second, Max: 4 * second}, From: "TAT − burst", To: "TAT",
		Turns: []Turn{
			{Name: "a rest", Note: "as long as it takes to cross where TAT is", From: -second, At: -second, To: -second},
			{Name: "first", Note: "allowed", From: -2 * second, To: second},
			{Name: "second", Note: "allowed", At: 200 * millisecond, From: -second, To: 2 * second},
			{Name: "third", Note: "denied, come back after 0.6 s", At: 400 * millisecond, From: second, To: 4 * second, Denied: true},
			{Name: "fourth", Note: "allowed", At: second, From: second, To: 4 * second},
		},
	}
}

func sampleBars() Bars {
	row := func(name, of string, more, beyond int64) BarRow {
		return BarRow{name, of, []Bar{{Text: fmt.Sprintf("%d %%", more/10_000), Value: more}, {Text: fmt.Sprint(beyond), Value: beyond}}}
	}
	return Bars{
		Of:       "nodes",
		Measures: []Measure{{"passed, more or less than on one node", Axis{Unit: Millionths}}, {"most beyond the limit of 100", Axis{}}},
		Groups: []BarGroup{
			{"as much as the limit", []BarRow{row("mesh", "2", 0, 10), row("mesh", "10", 20_000, 54)}},
			{"ten times as much", []BarRow{
				row("gossip", "2", -130_000, 12), row("gossip", "50", 1_000, 12_345),
				{"divided", "50", []Bar{{Text: "-", Empty: true}, {Text: "-", Empty: true}}},
			}},
		},
	}
}

func sampleWindows() Windows {
	return Windows{
		X: Axis{Name: "time", Unit: Micros, Min: 15 * second, Max: 90 * second}, Y: Axis{Name: "events counted"},
		From: 20 * second, To: 80 * second, Span: "the last 60 s", Sum: "2/3 × 20 + 25 + 30 + 18 + 5 = 91.3 of 100",
		Bars: []SubWindow{
			{From: 15 * second, To: 30 * second, Count: 20, Note: "2/3 × 20"},
			{From: 30 * second, To: 45 * second, Count: 25, Note: "25"},
			{From: 45 * second, To: 60 * second, Count: 30, Note: "30"},
			{From: 60 * second, To: 75 * second, Count: 18, Note: "18"},
			{From: 75 * second, To: 90 * second, Count: 5, Note: "5"},
		},
	}
}
