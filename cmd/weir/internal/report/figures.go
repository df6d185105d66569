package report

import "github.com/weir-limit/weir/sim"

// table is figures, a row for each trial.
type table struct {
	Caption string
	Columns []column
	Rows    []row
}

// column is a figure, and what it is.
type column struct{ Name, Means string }

type row struct {
	Name  string
	Cells []cell
}

// cell has its column's name, which a narrow screen shows beside it.
type cell struct{ Column, Text string }

// figure is a column, and how to read it from a trial.
type figure struct {
	column
	text func(f *sim.Figures) string
}

// right is the figures of who was right.
func (r Report) right() table {
	return r.table("Right or wrong", []figure{
		{
			column{"Passed", "requests that were let pass"},
			func(f *sim.Figures) string { return number(f.Passed) },
		},
		{
			column{"Denied", "requests that were not"},
			func(f *sim.Figures) string { return number(f.Denied) },
		},
		{
			column{"Wrongly passed", "let pass although the last period then held more than the count, by an exact log of what this limit let go"},
			func(f *sim.Figures) string { return number(f.WronglyPassed) },
		},
		{
			column{"Wrongly denied", "denied although the last period would have held no more than the count, by the same log"},
			func(f *sim.Figures) string { return number(f.WronglyDenied) },
		},
		{
			column{"Mean error", "how far its count of the last period was off, in events, on average over all requests; – for limits that keep no such count"},
			func(f *sim.Figures) string { return believed(f, tenths(f.MeanError)) },
		},
		{
			column{"Worst error", "the same at worst"},
			func(f *sim.Figures) string { return believed(f, number(f.WorstError)) },
		},
		{
			column{"In any " + r.period(), "the most events of one key that went in any " + r.period() + ", wherever it begins"},
			func(f *sim.Figures) string { return number(f.WorstPeriod) },
		},
		{
			column{"Bound", "the most that it can be, by proof; – where nothing is proved"},
			func(f *sim.Figures) string { return orDash(f.Bound) },
		},
	})
}

// manner is the figures of how it was for clients and for what is protected.
func (r Report) manner() table {
	return r.table("What it is like", []figure{
		{
			column{"Longest wait", "from a request that did not go at once until that client's next one that did"},
			func(f *sim.Figures) string { return wait(f.LongestWait) },
		},
		{
			column{"Peak load", "the most events that went in a sixtieth of the period, of all clients"},
			func(f *sim.Figures) string { return number(f.PeakLoad) },
		},
		{
			column{"Mean load", "how many went there on average"},
			func(f *sim.Figures) string { return tenths(f.MeanLoad) },
		},
		{
			column{"Late ones starved", "by how much less passes of what comes in the second half of a period than of what comes in the first"},
			func(f *sim.Figures) string { return percent(int64(f.Starved), 1_000_000) },
		},
		{
			column{"Fairness", "Jain's index between clients: 1 when all got the same, 1/n when one of n got all"},
			func(f *sim.Figures) string { return thousandths(f.Jain) },
		},
		{
			column{"Bytes a key", "the largest state of a key, without what the store needs around it; – where it is not known"},
			func(f *sim.Figures) string { return orDash(f.StateBytes) },
		},
	})
}

// believed is a figure of what a limit believes, where it believes anything.
func believed(f *sim.Figures, text string) string {
	if !f.Believes {
		return "–"
	}
	return text
}

func orDash(n int64) string {
	if n == 0 {
		return "–"
	}
	return number(n)
}

func (r Report) table(caption string, figures []figure) table {
	t := table{Caption: caption}
	for _, f := range figures {
		t.Columns = append(t.Columns, f.column)
	}
	for i := range r.Result.Trials {
		trial := &r.Result.Trials[i]
		line := row{Name: trial.Name}
		for _, f := range figures {
			line.Cells = append(line.Cells, cell{f.Name, f.text(&trial.Figures)})
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}
