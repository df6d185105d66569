package member

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// rank is the members in the order of the key.
func (v *View) rank(key weir.StateKey) []int {
	return rank.Of(key, len(v.members), func(i int) string { return v.members[i].name })
}

// Place is what a node is to a key, in one view.
type Place struct {
	Version uint64
	Owner   string    // who is asked, none if nobody may be
	First   string    // who is the first of all members
	Owns    bool      // this node is, and uses votes
	Most    bool      // it may be: its process is where most of the members are
	Voters  []Voter   // who lends its vote to this node
	Count   int64     // of how many votes
	idle    []string  // who lends no votes yet
	Backup  string    // who keeps the backup of what it grants, none: it has no votes but its own
	Keeper  [2]uint64 // its process, and the run of its votes
}

// Voter is a member whose vote a node has.
type Voter struct {
	member int
	Name   string
	run    [2]uint64
	Kept   bool   // it does not lend the vote now, but has not lent it to another either
	fresh  bool   // nobody else has had it
	turn   uint64 // the heartbeats that the member had sent when one that comes before this node might have had it last
}

// Released is what an owner says that hands a key over: it counts on no vote for it.
type Released struct {
	By    string
	Until weir.Instant // then no vote that it had before may be counted on anyway
}

// Place finds out what this node is to the key, when these have released it.
func (v *View) Place(now weir.Instant, key weir.StateKey, released []Released) Place {
	p := Place{Version: v.Version, Count: v.Count, Most: v.Quorum > 0}
	rank := v.rank(key)
	for _, i := range rank {
		if v.members[i].counts && !v.members[i].leaves {
			p.First, p.Owns = v.members[i].name, i == v.self && v.Voting
			break
		}
	}
	if v.self < 0 {
		return p
	}
	for _, i := range rank {
		if reaches(v.members[v.self].stand(i)) {
			p.Owner = v.members[i].name
			break
		}
	}
	free := make([]bool, len(v.members))
	for i := range v.members {
		free[i] = p.Owns && v.members[i].clear // I21
	}
	for _, r := range released {
		if i := v.find(r.By); i >= 0 && now < r.Until {
			free[i] = true
		}
	}
	for m := range v.members {
		of := &v.members[m]
		if of.leaves && !of.counts {
			continue
		}
		if of.idle {
			p.idle = append(p.idle, of.name)
		}
		if !of.counts { // of who lends it before it is one of all, or still
			continue
		}
		if follows, kept := v.follows(m, rank, free); follows || kept {
			p.Voters = append(p.Voters, Voter{m, of.name, of.run, kept || of.leaves, of.fresh, v.turn(m, rank)})
		}
	}
	for _, i := range rank {
		if i != v.self && v.members[i].backs && reaches(v.members[v.self].stand(i)) && slices.ContainsFunc(p.Voters, func(by Voter) bool { return by.member == i && !by.Kept }) {
			p.Backup, p.Keeper = v.members[i].name, v.members[i].run
			break
		}
	}
	return p
}

func (s *seen) stand(i int) Stand { return s.to(i).Stand }

func (s *seen) to(i int) Other {
	if s.stands == nil {
		return Other{}
	}
	return s.stands[i]
}

// follows is whether the m-th member lends this node its vote, and no other member can
// count on it, except those that have released the key: neither the one that it followed
// until it was settled with this node, nor any before that in the rank that it has begun to
// follow before this node, or let go. A member that it has begun to follow later, or with the same
// heartbeat, has never heard of that without hearing that this node comes first. kept tells that it
// did follow, and no other member can count on its share yet.
func (v *View) follows(m int, rank []int, released []bool) (follows, kept bool) {
	if v.members[m].idle {
		return false, false
	}
	order := v.members[m].to(v.self).Order
	for _, i := range rank {
		stand := v.members[m].stand(i)
		switch {
		case stand == Out:
		case i == v.self && stand == Leaving:
			return false, !follows
		case i == v.self && stand == Settled:
			return true, false
		case i == v.self:
			follows = true
		case stand == Settled:
			return follows && released[i], false
		case stand == Entering && follows && order <= v.members[m].to(i).Order:
		case stand == Entering && !follows, !released[i]: // I7
			return false, false
		}
	}
	return follows, false
}

// turn is how many heartbeats the m-th member had sent when one that comes before this node in the rank last began to have its vote. If
// that grows, another has had the vote in between, though this node has not heard of it, or has not looked.
func (v *View) turn(m int, rank []int) (last uint64) {
	for _, i := range rank {
		if i == v.self {
			break
		}
		last = max(last, v.members[m].to(i).Order)
	}
	return last
}

// Votes is how many votes a node may count on now. The votes of members that leave go to no other
// node: the node that has all other votes has them, too.
func (v *View) Votes(now weir.Instant, p *Place) int64 {
	if !v.Voting {
		return 0
	}
	n, last := int64(0), int64(0)
	for _, by := range p.Voters {
		switch of := &v.members[by.member]; {
		case of.leaves:
			last++
		case !by.Kept && now < of.until: // I8
			n++
		}
	}
	if n+last == p.Count {
		return p.Count
	}
	return n
}

// Unbroken is how many votes, of how many, a node has in p that nobody else has had since it was
// in the place before: those that it had, but for what members have lent to others; and
// those of members that are new, and have lent them to nobody before.
func (v *View) Unbroken(p, before *Place) (votes, all int64) {
	for _, old := range before.Voters {
		votes += int64(frame.Flag(v.unbroken(old.Name, p, before)))
	}
	for _, by := range p.Voters {
		votes += int64(frame.Flag(!before.has(by.Name) && v.unbroken(by.Name, p, before)))
	}
	return votes, max(before.Count, p.Count, 1)
}

func (p *Place) has(name string) bool {
	return slices.ContainsFunc(p.Voters, func(by Voter) bool { return by.Name == name })
}

// unbroken is whether a node has a member's vote in p that nobody else has had since it was in the place before.
func (v *View) unbroken(name string, p, before *Place) bool {
	i := v.find(name)
	if i < 0 || v.members[i].leaves {
		return before.has(name)
	}
	of := func(by Voter) bool { return by.Name == name }
	was, is := slices.IndexFunc(before.Voters, of), slices.IndexFunc(p.Voters, of)
	if is < 0 {
		return false
	}
	by := &p.Voters[is]
	if was < 0 {
		return by.fresh && by.turn == 0 && slices.Contains(before.idle, name)
	}
	old := &before.Voters[was]
	return by.run == old.run && by.turn <= old.turn // I10
}

// Followed is how many votes each member has of a key that other members take for its owner, as this process knows, who
// the owner would be for the first of the rank, and how many votes there are. Members that are not heard may follow
// anybody: theirs are with "".
func (v *View) Followed(key weir.StateKey) (votes map[string]int64, first string, all int64) {
	rank := v.rank(key)
	votes = map[string]int64{}
	for _, m := range rank {
		if !v.members[m].counts {
			continue
		}
		owner := v.obeys(m, rank)
		if all == 0 {
			first = owner
		}
		votes[owner]++
		all++
	}
	return votes, first, all
}

// obeys is whom the m-th member takes for the owner, by a rank; empty if it is not heard.
func (v *View) obeys(m int, rank []int) string {
	if m != v.self && (v.self < 0 || !reaches(v.members[v.self].stand(m))) {
		return ""
	}
	for _, i := range rank {
		if v.members[i].counts && reaches(v.members[m].stand(i)) {
			return v.members[i].name
		}
	}
	return ""
}

// reaches is whether a process that stands so to a member asks it.
func reaches(s Stand) bool { return s == Settled || s == Entering }
