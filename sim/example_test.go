package sim_test

import (
	"context"
	"fmt"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim"
)

// What two limits make of twice a hundred requests around the full minute.
func ExampleRun() {
	var contenders []sim.Contender
	for _, text := range []string{"100/min fixed-window", "100/min sliding-window"} {
		c, err := sim.Of(weir.MustParseLimit(text))
		if err != nil {
			fmt.Println(err)
			return
		}
		contenders = append(contenders, c)
	}
	w, err := sim.ParseWorkload("edge size=100 gap=1s", contenders[0].Limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := sim.Run(context.Background(), w, contenders, sim.Options{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range result.Trials {
		fmt.Println(t.Name, "lets", t.Figures.WorstPeriod, "go in a minute")
	}
	// Output:
	// 100/min fixed-window lets 200 go in a minute
	// 100/min sliding-window lets 100 go in a minute
}

// The worst that anybody can do to a sliding window.
func ExampleSearch() {
	a, err := sim.Search(context.Background(), weir.MustParseLimit("100/min sliding-window"), 1, 20_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Found, "of at most", a.Bound, "by", len(a.Requests), "requests")
	// Output: 199 of at most 199 by 2 requests
}
