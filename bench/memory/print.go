package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	page "github.com/weir-limit/weir/bench/internal/table"
)

// print writes the tables of docs/memory.md, and then what each median lies between.
func (r *report) print(to io.Writer) {
	fmt.Fprintf(to, "%s, %s, commit %s\n", r.Machine, r.Go, r.Commit)
	if len(r.Tables) > 0 {
		r.printOnes(to)
	}
	if len(r.Twos) > 0 {
		r.printTwos(to)
	}
	if len(r.Facts) > 0 {
		var rows [][]string
		for _, f := range r.Facts {
			rows = append(rows, []string{f.What, f.Measured, page.Goal(f.Target, f.Met)})
		}
		must(page.Grid(to, []string{"", "measured", "goal"}, rows))
	}
	r.printSpread(to)
}

// printOnes writes the table of one limit, with the memstore's goal beside its floor.
func (r *report) printOnes(to io.Writer) {
	head := []string{front.name, file.name, ours.name, floor.name, "goal of memstore"}
	for _, peer := range peers {
		head = append(head, peer.name)
	}
	var rows [][]string
	for _, t := range r.Tables {
		goal := 1.25*t.median(floor.name) + 10
		row := []string{t.Scenario}
		for _, name := range head {
			if name == "goal of memstore" {
				row = append(row, page.Goal(fmt.Sprintf("%.0f", goal), t.median(ours.name) <= goal))
			} else {
				row = append(row, t.cell(name))
			}
		}
		rows = append(rows, row)
	}
	must(page.Grid(to, append([]string{"a take, ns of a processor"}, head...), rows))
	for _, of := range []string{ours.name, front.name, file.name} {
		between(to, r.Tables, "sethvargo/go-limiter", of)
	}
}

// printTwos writes the table of two limits, with the goal of a limiter of two beside one of one.
func (r *report) printTwos(to io.Writer) {
	head := []string{front.name, frontOfTwo.name, "against one", fileOfTwo.name}
	for _, peer := range twice() {
		head = append(head, peer.name)
	}
	var rows [][]string
	for _, t := range r.Twos {
		ratio := t.median(frontOfTwo.name) / t.median(front.name)
		row := []string{t.Scenario}
		for _, name := range head {
			if name == "against one" {
				row = append(row, fmt.Sprintf("%.1f, goal %s", ratio, page.Goal("≤ 2", ratio <= 2)))
			} else {
				row = append(row, t.cell(name))
			}
		}
		rows = append(rows, row)
	}
	must(page.Grid(to, append([]string{"a take of two limits, ns of a processor"}, head...), rows))
	between(to, r.Twos, frontOfTwo.name, front.name)
	for _, of := range []string{frontOfTwo.name, fileOfTwo.name} {
		between(to, r.Twos, "sethvargo/go-limiter twice", of)
	}
}

// printSpread writes the least and the most beside each median.
func (r *report) printSpread(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, part := range []struct {
		of     string
		tables []table
	}{{"one limit", r.Tables}, {"two limits", r.Twos}} {
		for _, t := range part.tables {
			fmt.Fprintf(w, "\n%s, %s: median, least and most\t\t\n", part.of, t.Scenario)
			for _, c := range t.Costs {
				fmt.Fprintf(w, "  %s\t%.1f\t%.1f–%.1f\n", c.Name, c.Median, c.Min, c.Max)
			}
		}
	}
	must(w.Flush())
}

// median is that of a subject, or 0 where it was not measured.
func (t *table) median(name string) float64 {
	for _, c := range t.Costs {
		if c.Name == name {
			return c.Median
		}
	}
	return 0
}

func (t *table) cell(name string) string {
	if ns := t.median(name); ns > 0 {
		return fmt.Sprintf("%.0f", ns)
	}
	return ""
}

// between tells how many times as long one subject takes as another, over all rows.
func between(to io.Writer, tables []table, one, of string) {
	var ratios []float64
	for _, t := range tables {
		if a, b := t.median(one), t.median(of); a > 0 && b > 0 {
			ratios = append(ratios, a/b)
		}
	}
	if len(ratios) > 0 {
		fmt.Fprintf(to, "%s takes %.1f to %.1f times as long as %s.\n", one, slices.Min(ratios), slices.Max(ratios), of)
	}
}
