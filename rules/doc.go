// Package rules reads which requests are limited, and how, and asks the limits
// about requests.
//
// A rule file holds one domain as a tree of descriptors, in the form of
// envoyproxy/ratelimit and with limits in Weir's own words beside it:
//
//	domain: shop
//	descriptors:
//	  - key: user              # any user, each by itself
//	    limits: [10/s burst 20, 1000/day fixed-window]
//	  - key: user
//	    value: load-test       # this one more
//	    limits: [1000/s]
//	  - key: path
//	    value: /export/*
//	    descriptors:
//	      - key: user          # path and user together
//	        rate_limit: {unit: hour, requests_per_unit: 5}
//
// Parse and Load make a Set of it, which never changes. A request brings
// descriptors, each a list of entries; Set.Match finds the limits of one: on
// each level the exact key and value, else the first pattern with * that fits,
// in the order of the file, else the key alone. Nothing is tried twice, and a
// descriptor meets only limits as deep as it has entries.
//
//	set, err := rules.Load("/etc/weir/rules")
//	err = set.Fits(store.Traits()) // can the store keep all limits?
//	limiter := rules.NewLimiter(store, set)
//	answer, err := limiter.Check(ctx, &rules.Request{
//		Domain:      "shop",
//		Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "ann"}}, Cost: 1}},
//	})
//
// All limits of a request decide together, all or nothing. Limiter.Replace
// changes the rules between two requests; counts stay, because they belong to
// a rule's place in the file and not to its numbers.
//
// A Limiter is all that a listener talks to. Limiter.Explain takes copies of the states
// (weir.Looker) and asks them by the same code as Check, so that what it says is what
// Check would say; trace.go follows a descriptor through the file, explainwords.go finds
// the words. Denials keeps what denials stood on (weir.Evidence), so that Limiter.Recall
// explains them afterwards by the same code. candidate.go runs a second set of rules
// beside that in force, with counts of its own.
package rules
