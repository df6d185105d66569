package memstore

import (
	"fmt"
	"testing"
)

// The model below is the protocol by which goroutines find, lock, split and copy
// segments, one step for each thing that others may come between: table.lock,
// lock, segment.unlock, table.replace and table.copy. Fingerprints have two bits,
// and every segment is split as soon as it can be. Its worlds are compared, so
// everything in them has a fixed size.
const (
	bitsOfPrint  = 2
	prints       = 1 << bitsOfPrint
	modelThreads = 3
	nobody       = -1
)

type world struct {
	directories [bitsOfPrint + 1][prints]int8 // of 1, 2 and 4 entries: numbers of segments
	directory   int8                          // in use
	changing    int8                          // who has the lock of changes to directories
	segments    [2*prints - 1]modelSegment
	made        int8
	threads     [modelThreads]modelThread
	charges     [prints]int8
}

type modelSegment struct {
	owner        int8
	gone         bool
	depth, start int8
	used         [prints]int8
}

// modelThread does a take of some prints, all or nothing, or a snapshot.
type modelThread struct {
	prints   [2]int8 // of a take, in the order in which they are locked
	n        int8    // how many; 0 for a snapshot
	at       int8    // which of them; for a snapshot, where it is
	step     step
	dir, seg int8 // what was loaded
	held     [2]int8
	read     [2]int8
	entry    int8 // of the directory that is changed
	parts    int8 // the first of two
	copied   [prints]int8
}

type step int8

const (
	loadDirectory step = iota
	loadSegment
	lockSegment
	lookAgain
	readStates
	writeStates
	beginUnlock
	makeParts
	lockDirectory
	copyDirectory
	storeParts
	storeDirectory
	unlockSegment
	done
)

// faults of the protocol that the model must find.
type fault int

const (
	noFault fault = iota
	dontLookAgain
	lockInAnyOrder
	copyWithoutLock
	countWithoutLock
)

// wanted is the print that a thread looks for.
func (th *modelThread) wanted() int8 {
	if th.n == 0 {
		return th.at
	}
	return th.prints[th.at]
}

func (s *modelSegment) holds(f int8) bool {
	return f>>(bitsOfPrint-s.depth) == s.start>>(bitsOfPrint-s.depth)
}

// next is the world after thread i's next step; not ok when it must wait or is done.
func (w world) next(i int, broken fault) (_ world, ok bool) {
	th := &w.threads[i]
	sg := &w.segments[th.seg]
	switch th.step {
	case loadDirectory:
		th.dir = w.directory
	case loadSegment:
		th.seg = w.directories[th.dir][th.wanted()>>(bitsOfPrint-th.dir)]
	case lockSegment:
		if sg.owner != nobody && broken != countWithoutLock {
			return w, false
		}
		sg.owner = int8(i)
	case lookAgain:
		if sg.gone && broken != dontLookAgain {
			sg.owner, th.step = nobody, loadDirectory
			return w, true
		}
		if th.n == 0 {
			th.step = readStates
			return w, true
		}
		th.held[th.at] = th.seg
		th.at++
		if th.at < th.n && sg.holds(th.wanted()) {
			th.held[th.at] = th.seg
			th.at++
		}
		if th.at < th.n {
			th.step = loadDirectory
			return w, true
		}
	case readStates:
		if th.n == 0 {
			w.copy(th, sg)
			th.step = unlockSegment
			return w, true
		}
		for k := range th.n {
			th.read[k] = w.segments[th.held[k]].used[th.prints[k]]
		}
	case writeStates:
		for k := range th.n {
			w.segments[th.held[k]].used[th.prints[k]] = th.read[k] + 1
			w.charges[th.prints[k]]++
		}
		th.at, th.seg = 0, th.held[0]
	case done:
		return w, false
	default:
		return w.unlock(i, broken)
	}
	th.step++
	return w, true
}

// unlock is segment.unlock with table.replace.
func (w world) unlock(i int, broken fault) (_ world, ok bool) {
	th := &w.threads[i]
	sg := &w.segments[th.seg]
	switch th.step {
	case beginUnlock:
		if sg.gone || sg.depth == bitsOfPrint {
			th.step = unlockSegment
			return w, true
		}
	case makeParts:
		th.parts = w.split(sg)
	case lockDirectory:
		if w.changing != nobody && broken != copyWithoutLock {
			return w, false
		}
		w.changing, th.dir, th.entry = int8(i), w.directory, 0
		if sg.depth < th.dir {
			th.step = storeParts
			return w, true
		}
	case copyDirectory:
		w.directories[th.dir+1][th.entry] = w.directories[th.dir][th.entry/2]
		if th.entry++; th.entry < 2<<th.dir {
			return w, true
		}
		th.dir, th.entry = th.dir+1, 0
	case storeParts:
		n := int8(1) << (th.dir - sg.depth)
		w.directories[th.dir][sg.start>>(bitsOfPrint-th.dir)+th.entry] = th.parts + th.entry/(n/2)
		if th.entry++; th.entry < n {
			return w, true
		}
	case storeDirectory:
		w.directory, w.changing = th.dir, nobody
	default: // unlockSegment
		sg.owner = nobody
		w.goOn(th)
		return w, true
	}
	th.step++
	return w, true
}

// goOn chooses what a thread does after it has unlocked a segment.
func (w *world) goOn(th *modelThread) {
	sg := &w.segments[th.seg]
	if th.n == 0 {
		th.at, th.step = sg.start+prints>>sg.depth, loadDirectory
		if th.at == prints {
			th.step = done
		}
		return
	}
	for th.at++; th.at < th.n && th.held[th.at] == th.held[th.at-1]; th.at++ {
	}
	if th.step = done; th.at < th.n {
		th.seg, th.step = th.held[th.at], beginUnlock
	}
}

func (w *world) split(sg *modelSegment) (parts int8) {
	sg.gone = true
	for side := range int8(2) {
		p := modelSegment{owner: nobody, depth: sg.depth + 1, start: sg.start + side<<(bitsOfPrint-1-sg.depth)}
		for f := range int8(prints) {
			if p.holds(f) {
				p.used[f] = sg.used[f]
			}
		}
		w.segments[w.made] = p
		w.made++
	}
	return w.made - 2
}

// copy is what a snapshot reads; a print that it meets twice counts 100.
func (w *world) copy(th *modelThread, sg *modelSegment) {
	for f := range int8(prints) {
		if sg.holds(f) {
			if th.copied[f] != nobody {
				th.copied[f] = 100
				continue
			}
			th.copied[f] = sg.used[f]
		}
	}
}

func newWorld(takes [][]int8, broken fault) world {
	w := world{made: 1, changing: nobody}
	for i := range w.segments {
		w.segments[i].owner = nobody
	}
	for i := range w.threads {
		th := &w.threads[i]
		th.step = done
		if i < len(takes) {
			th.step, th.n = loadDirectory, int8(copy(th.prints[:], takes[i]))
		}
		if broken == lockInAnyOrder && i == 1 {
			th.prints[0], th.prints[1] = th.prints[1], th.prints[0]
		}
		for f := range th.copied {
			th.copied[f] = nobody
		}
	}
	return w
}

// explore tries every order of steps, and tells how many worlds there are and
// what is wrong with the first bad one.
func explore(w world, broken fault) (worlds int, bad string) {
	seen := map[world]bool{w: true}
	for open := []world{w}; len(open) > 0; {
		w, open = open[len(open)-1], open[:len(open)-1]
		moved := false
		for i := range w.threads {
			next, ok := w.next(i, broken)
			moved = moved || ok
			if ok && !seen[next] {
				seen[next] = true
				open = append(open, next)
			}
		}
		if !moved {
			if bad = w.wrong(); bad != "" {
				break
			}
		}
	}
	return len(seen), bad
}

// wrong says what is wrong with a world in which nobody can move.
func (w *world) wrong() string {
	for i := range w.threads {
		th := &w.threads[i]
		if th.step != done {
			return fmt.Sprintf("thread %d waits for ever", i)
		}
		for f, n := range th.copied {
			if th.n == 0 && th.at == prints && (n < 0 || n > w.charges[f]) {
				return fmt.Sprintf("the snapshot has %d of print %d, which was charged %d", n, f, w.charges[f])
			}
		}
	}
	for f := range int8(prints) {
		sg := &w.segments[w.directories[w.directory][f>>(bitsOfPrint-w.directory)]]
		if sg.gone || !sg.holds(f) || sg.used[f] != w.charges[f] {
			return fmt.Sprintf("print %d was charged %d and is in %+v", f, w.charges[f], *sg)
		}
	}
	return ""
}

// TestProtocol: in whatever order goroutines take their steps, no charge is lost,
// nobody waits for ever, and a snapshot has every key once. The same search finds
// what goes wrong when the protocol leaves something out.
func TestProtocol(t *testing.T) {
	plans := [][][]int8{
		{{0, 3}, {0, 3}, {1}},
		{{0, 3}, {1, 2}, {}},
		{{0, 1}, {1, 2}, {}},
		{{0}, {0}, {}},
		{{0}, {1}, {2}},
		{{2, 3}, {0, 2}, {1, 3}},
	}
	for _, broken := range []fault{noFault, dontLookAgain, lockInAnyOrder, copyWithoutLock, countWithoutLock} {
		found, worlds := "", 0
		for _, plan := range plans {
			n, bad := explore(newWorld(plan, broken), broken)
			worlds += n
			if bad != "" {
				found = fmt.Sprintf("%v: %s", plan, bad)
				break
			}
		}
		t.Logf("fault %d: %d worlds, %q", broken, worlds, found)
		if (found == "") != (broken == noFault) {
			t.Errorf("with fault %d: %q", broken, found)
		}
	}
}
