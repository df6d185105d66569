package rules_test

import (
	"context"
	"fmt"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func ExampleLoad() {
	set, err := rules.Load("testdata/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range set.Rules() {
		fmt.Println(r.Name, "has", r.Limit)
	}
	// Output:
	// shop/user#1 has 10/s burst 20
	// shop/user#2 has 1000/day fixed-window
	// shop/path=/export/* has 5/h fixed-window
}

func ExampleParse() {
	_, err := rules.Parse("shop.yaml", []byte(`domain: shop
descriptors:
  - key: user
    limit: [10/s]
  - key: path
    limits: [5 per hour]
`))
	fmt.Println(err)
	// Output:
	// shop.yaml:4:5: error: unknown key "limit" in a descriptor; did you mean limits? (rule shop/user)
	// shop.yaml:6:14: error: limit "5 per hour": "5" has no period; write 5/min, or 5 concurrent for permits (rule shop/path)
}

func ExampleLimiter_Check() {
	set, err := rules.Parse("shop.yaml", []byte(`domain: shop
descriptors:
  - key: user
    limits: [3/h]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	request := &rules.Request{
		Domain:      "shop",
		Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "ann"}}, Cost: 2}},
	}
	for range 2 {
		answer, err := limiter.Check(context.Background(), request)
		if err != nil {
			fmt.Println(err)
			return
		}
		d := answer.Decisions[answer.Decisive]
		fmt.Println(answer.Allowed, d.Rule.Name, d.Outcome, d.Remaining)
	}
	// Output:
	// true shop/user allowed 1
	// false shop/user denied 1
}
