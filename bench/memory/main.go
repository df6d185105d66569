// Command memory measures what a program calls, weir.Limiter and rules.Limiter, and
// memstore alone, beside other limiters and beside the least that any could cost, in one
// run: make bench.
package main

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"

	page "github.com/weir-limit/weir/bench/internal/table"
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
	Twos    []table `json:"twos"` // of two limits
	Facts   []fact  `json:"facts"`
}

type table struct {
	Scenario string  `json:"scenario"`
	Costs    []costs `json:"costs"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	short := flag.Bool("short", false, "few rounds, no peers, one million keys at most")
	only := flag.String("only", "", "only what has this in its name: a row of a table, two limits, growth, collection, saving, hot key, algorithms, together, or facts for all but the tables")
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
	r := report{Machine: page.Machine(), Go: runtime.Version(), Commit: page.Commit()}
	ones, twos := slices.Concat([]subject{ours, floor, front, file}, floors), []subject{front, frontOfTwo, fileOfTwo}
	if !*short {
		ones, twos = append(ones, peers...), append(twos, twice()...)
	}
	// First, while the heap has nothing of the peers.
	r.Facts = facts(*most, *rounds, *only)
	for _, s := range scenarios(*most) {
		if strings.Contains(s.String(), *only) {
			note("%v", s)
			r.Tables = append(r.Tables, table{s.String(), s.compare(ones, *rounds)})
		}
		if name := "two limits, " + s.String(); strings.Contains(name, *only) {
			note("%v", name)
			r.Twos = append(r.Twos, table{s.String(), s.compare(twos, *rounds)})
		}
	}
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		must(out.Encode(r))
		return
	}
	r.print(os.Stdout)
}

func scenarios(most int) []scenario {
	var all []scenario
	for _, keys := range []int{1, tenThousand, million} {
		if keys > most {
			continue
		}
		for _, deny := range []bool{false, true} {
			for _, procs := range []int{1, 2} {
				all = append(all, scenario{plan{keys, deny}, procs})
			}
		}
	}
	return all
}
