// Command memory measures memstore beside other limiters and beside the least
// that any could cost, in one run: make bench.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	tenThousand = 10_000
	million     = 1_000_000
)

// report is what -json prints.
type report struct {
	Machine string  `json:"machine"`
	Go      string  `json:"go"`
	Commit  string  `json:"commit"`
	Tables  []table `json:"tables"`
	Facts   []fact  `json:"facts"`
}

type table struct {
	Scenario string  `json:"scenario"`
	Costs    []costs `json:"costs"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	short := flag.Bool("short", false, "few rounds, no peers, one million keys at most")
	only := flag.String("only", "", "only what has this in its name: a row of the table, growth, collection, saving, hot key, algorithms, together, or facts for all but the table")
	most := flag.Int("most", 10*million, "the most keys of any measurement")
	rounds := flag.Int("rounds", 21, "measurements of each cell")
	profile := flag.String("profile", "", "write a processor profile to this file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		must(err)
		must(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	if *short {
		*rounds, *most = min(*rounds, 9), min(*most, million)
	}
	r := report{Machine: machine(), Go: runtime.Version(), Commit: commit()}
	subjects := slices.Concat([]subject{ours, floor}, fronts, floors)
	if !*short {
		subjects = append(subjects, peers...)
	}
	// First, while the heap has nothing of the peers.
	r.Facts = facts(*most, *rounds, *only)
	for _, keys := range []int{1, tenThousand, million} {
		if keys > *most {
			continue
		}
		for _, deny := range []bool{false, true} {
			for _, procs := range []int{1, 2} {
				s := scenario{plan{keys, deny}, procs}
				if strings.Contains(s.String(), *only) {
					note("%v", s)
					r.Tables = append(r.Tables, table{s.String(), s.compare(subjects, *rounds)})
				}
			}
		}
	}
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		must(out.Encode(r))
		return
	}
	r.print()
}

func (r *report) print() {
	fmt.Printf("%s, %s, commit %s\nNanoseconds of a processor for each take: median, least and most; and the median against memstore's.\n", r.Machine, r.Go, r.Commit)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n%s\t\t\t\t\n", t.Scenario)
		for _, c := range t.Costs {
			fmt.Fprintf(w, "  %s\t%.1f\t%.1f–%.1f\t%.2f ×\t\n", c.Name, c.Median, c.Min, c.Max, c.Median/t.Costs[0].Median)
		}
		fmt.Fprintf(w, "  target: 1.25 floors + 10 ns\t%.1f\t\t\t%s\n", t.target(), verdict(t.Costs[0].Median <= t.target()))
	}
	fmt.Fprintln(w)
	for _, f := range r.Facts {
		fmt.Fprintf(w, "%s\t%s\ttarget %s\t\t%s\n", f.What, f.Measured, f.Target, verdict(f.Met))
	}
	must(w.Flush())
}

func (t *table) target() float64 { return 1.25*t.Costs[1].Median + 10 }

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "not met"
}

func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d × %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
