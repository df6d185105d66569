// Package rulestore keeps the rules of domains in a database, with everything
// that they ever were: SQLite in a folder, or PostgreSQL where several nodes
// share the rules.
//
//	s, err := rulestore.Open(ctx, "/var/lib/weir")
//	ann := rulestore.Actor{Name: "ann", Role: rulestore.Publish, Teams: []string{"shop"}}
//	v, err := s.Propose(ctx, ann, rulestore.Proposal{
//		Domain: "shop", Text: "- key: user\n  limits: [10/s]\n", Reason: "checkout was slow",
//	})
//	r, err := s.Move(ctx, ann, rulestore.Step{
//		Domain: "shop", Rule: v.Rule, Version: v.Number, To: rulestore.Enforced, Match: v.Revision, Reason: "shadow saw no denials",
//	})
//
// # Rules, versions, domains
//
// A domain is what a rule file holds. It is kept as its rules, so that people
// who change different rules are never in each other's way: a rule here is one
// item of the file's descriptors list, with all that is below it. Its ID is the
// item's place, "key" or "key=value", as counts belong to places. Domain.File
// puts the items together again as they were written, comments and all.
//
// The text before the first rule is kept as if it were a rule, whose ID is empty (Frame).
//
// A version is a rule's text at a time. It is never changed, and no number is
// used twice. A version is a draft at first; in shadow it runs beside the rule
// in force, and enforced it is the active rule. Taking a rule away is a version
// without text, and rolling back is enforcing an old version, so that history
// has all of it. The `owner` of a rule names its team, else its domain does.
//
// # Changes
//
// There is one change at a time, over all nodes, and each has a revision: 1, 2,
// 3 … A caller that changes a thing names the revision that it has seen (Match), and is refused
// when the thing was changed since. A change is whole or not at all, and when a method has returned
// it is on disk.
//
// Every change, and every one that was refused, is in the audit, and so is what else
// Record is told of. Nothing of the audit is changed or removed: the database refuses it, and each
// line has the hash of the one before, so that Verify finds what was done to lines all the same.
//
// # The code
//
// outline.go cuts a file into rules and puts it together again, rule.go and step.go make
// versions and take them from draft to shadow to enforced, importing.go takes a whole
// file, feed.go says what is active since when, token.go and person.go who may do what, session.go who has signed in,
// scope.go whose clients an actor may read of, claim.go which
// node serves a folder, node.go which serve PostgreSQL, and what is active there. limited.go carries
// which clients nodes limit now, and unblock.go has all nodes reset the counts of one. audit.go
// says who did what, chain.go whether that was changed, and undo.go what undoes it. inbox.go says what waits for whom, and comment.go
// keeps what people say of a version. webhook.go keeps which URLs are told what happens, and outbox.go what they are to be told.
// exception.go gives single keys limits of their own for a time, and exceptionlist.go many at once,
// relax.go opens and tightens limits for a time, and unreviewed.go
// counts what one person did alone. deletion.go takes domains away and restores them. query.go reads what a query finds.
package rulestore
