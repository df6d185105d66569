package report

import "github.com/weir-limit/weir/sim"

// Table is figures, a column for each.
type Table struct {
	Caption string
	Columns []Figure
}

// Figure is a column of a table: what it is, and how to read it from a trial.
type Figure struct {
	Name, Means string
	Text        func(f sim.Figures) string
}

// Tables are the figures of all trials.
func (r Report) Tables() []Table { return []Table{r.right(), manner()} }

// right is the figures of who was right.
func (r Report) right() Table {
	return Table{"Right or wrong", []Figure{
		{
			"Passed", "requests that were let pass",
			func(f sim.Figures) string { return number(f.Passed) },
		},
		{
			"Denied", "requests that were not",
			func(f sim.Figures) string { return number(f.Denied) },
		},
		{
			"Wrongly passed", "let pass although the last period then held more than the count, by an exact log of what this limit let go",
			func(f sim.Figures) string { return number(f.WronglyPassed) },
		},
		{
			"Wrongly denied", "denied although the last period would have held no more than the count, by the same log",
			func(f sim.Figures) string { return number(f.WronglyDenied) },
		},
		{
			"Held", "passed after a wait in a queue; an exact log would have let them go at once, or denied them",
			func(f sim.Figures) string { return number(f.Held) },
		},
		{
			"Mean error", "how far its count of the last period was off, in events, on average over all requests; – for limits that keep no such count",
			func(f sim.Figures) string { return believed(f, tenths(f.MeanError)) },
		},
		{
			"Worst error", "the same at worst",
			func(f sim.Figures) string { return believed(f, number(f.WorstError)) },
		},
		{
			"In any " + r.period(), "the most events of one key that went in any " + r.period() + ", wherever it begins",
			func(f sim.Figures) string { return number(f.WorstPeriod) },
		},
		{
			"Bound", "the most that it can be, by proof; – where nothing is proved",
			func(f sim.Figures) string { return orDash(f.Bound) },
		},
	}}
}

// manner is the figures of how it was for clients and for what is protected.
func manner() Table {
	return Table{"What it is like", []Figure{
		{
			"Longest wait", "from a request that did not go at once until that client's next one that did",
			func(f sim.Figures) string { return wait(f.LongestWait) },
		},
		{
			"Peak load", "the most events that went in a sixtieth of the period, of all clients",
			func(f sim.Figures) string { return number(f.PeakLoad) },
		},
		{
			"Mean load", "how many went there on average",
			func(f sim.Figures) string { return tenths(f.MeanLoad) },
		},
		{
			"Late ones starved", "by how much less passes of what comes in the second half of a period than of what comes in the first",
			func(f sim.Figures) string { return percent(int64(f.Starved), 1_000_000) },
		},
		{
			"Fairness", "Jain's index between clients: 1 when all got the same, 1/n when one of n got all",
			func(f sim.Figures) string { return f.Jain.Fixed(3) },
		},
		{
			"Bytes a key", "the largest state of a key, without what the store needs around it; – where it is not known",
			func(f sim.Figures) string { return orDash(f.StateBytes) },
		},
	}}
}

// believed is a figure of what a limit believes, where it believes anything.
func believed(f sim.Figures, text string) string {
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
