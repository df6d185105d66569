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
// Check would say. Denials keeps the states that denials were decided on (weir.Evidence), so
// that Limiter.Recall explains them afterwards by the same code. Limiter.Try runs items of a file
// beside the active ones, with counts of their own.
//
// # The files
//
// A request goes through these, in this order:
//
//	limiter.go     Limiter: the rules, the store, and what is kept beside them
//	check.go       Limiter.Check, and the take that a request becomes
//	request.go     what a request is, and its bounds
//	match.go       Set.Match: from a descriptor to its rules
//	item.go        a descriptor at the top of a file, and whether it is looser than another
//	level.go       the tree of a file, level by level; pattern.go: texts with *
//	key.go         the key of a count, and its name for people
//	rule.go        what a rule is, and where its counts are
//	exception.go   limits of single keys, in place of their rule's
//	override.go    limits that requests bring, and how many there may be
//	candidate.go   the rules that decide beside the active ones
//	answer.go      what the caller gets
//
// A rule file becomes a Set in these:
//
//	load.go        from files and folders; export.go: all as one text, and back
//	yaml.go        from text to nodes, with bounds
//	value.go       single values of a mapping
//	parse.go       the file and its descriptors
//	options.go     the limits of a descriptor, and the options beside them
//	modes.go       what sharing and partition can't be, and what they let pass
//	values.go      which words the metrics of a rule tell apart
//	lint.go        what no request can meet
//	finding.go     errors and warnings; suggest.go: what their author may have meant
//	fit.go         what a store can't keep
//	set.go         the Set; join.go: one of several
//
// These files explain what was decided:
//
//	explain.go     Limiter.Explain; explainwords.go: its sentences
//	trace.go       the way of a descriptor through the file
//	denials.go     the last denials, in parts (shard.go), each as a text (body.go)
//	recall.go      Limiter.Recall
package rules
