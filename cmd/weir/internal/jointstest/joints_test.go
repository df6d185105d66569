package jointstest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	budget    = flag.Duration("joints", 6*time.Second, "how long to draw stories; from a minute on, of clusters, too")
	from      = flag.Uint64("seed", 0, "the first seed; 0: the first of all, or from a minute on one drawn now")
	shrinking = flag.Duration("shrink", 20*time.Second, "how long to look for a shorter story")
	only      = flag.String("house", "", "the house of all stories; empty: all by turns")
)

// TestStories plays the stories of testdata: each went wrong once.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no stories")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseStory(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if program := missing(s.house); program != "" {
				t.Skip("no " + program)
			}
			v := perform(t, s)
			if v.err != nil {
				t.Fatal(v.err)
			}
			if v.wrong() {
				t.Errorf("%s\n%s", s.steps[v.step].String(), strings.Join(v.faults, "\n"))
			}
		})
	}
}

// houses are where stories are drawn for, by turns. Those of a clock of their own are quick.
var houses = []string{
	"parts", "parts keys=64", "parts snapshot", "daemon memory", "parts", "daemon snapshot", "program client",
	"parts", "parts keys=64", "daemon redis", "parts", "daemon memcached", "parts snapshot", "daemon nats", "parts",
	"program redis", "parts", "program memcached", "parts", "daemon postgres", "parts", "program postgres",
	"parts", "ruled memory", "parts", "ruled redis", "parts", "program edge redis", "parts", "program edge memcached", "parts", "program edge postgres",
}

// clusters take seconds each.
var clusters = []string{"cluster 1", "cluster 2", "cluster 3", "cluster 4", "cluster 2 leader", "cluster 3 leader", "cluster 4 leader"}

// sharingOf is how the nodes of a house share, where it says so. Ways that let more pass than the limit are not
// for an oracle.
func sharingOf(house string) string {
	if words := strings.Fields(house); len(words) > 2 && words[0] == "cluster" {
		return words[2]
	}
	return ""
}

// houseOf is the house of a seed.
func houseOf(seed uint64) string {
	if *only != "" {
		return *only
	}
	all := houses
	if *budget >= time.Minute && seed%64 == 0 {
		all, seed = clusters, seed/64
	}
	return all[seed%uint64(len(all))]
}

// TestJoints draws stories, and shrinks the first that goes wrong.
func TestJoints(t *testing.T) {
	seed := *from
	if seed == 0 && *budget >= time.Minute {
		seed = rand.Uint64N(1 << 40)
	}
	first, began, told := seed, time.Now(), time.Now()
	all, checks, steps, starved := newMet(""), 0, 0, 0
	tell := func() {
		t.Logf("seeds %d to %d: %d steps, %d checks, %.0f a second; nothing wrong for %v; in %d stories the machine starved a node",
			first, seed-1, steps, checks, float64(checks)/time.Since(began).Seconds(), time.Since(began).Round(time.Second), starved)
	}
	for ; time.Since(began) < *budget; seed++ {
		house := houseOf(seed)
		if missing(house) != "" {
			continue
		}
		s := draw(seed, house)
		v := perform(t, s)
		checks, steps = checks+v.checks, steps+len(s.steps)
		all.add(v.met)
		if v.met != nil && v.met.starved {
			starved++
		}
		if v.err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, v.err, s)
		}
		if v.wrong() {
			keep(t, seed, s, v)
		}
		if time.Since(told) > 10*time.Minute {
			tell()
			told = time.Now()
		}
	}
	tell()
	t.Logf("\n%s", all)
}

// keep shrinks a story that went wrong, keeps it in testdata, and ends the test.
func keep(t *testing.T, seed uint64, s *story, v verdict) {
	short, why := shrink(t, s, v, *shrinking)
	file := filepath.Join("testdata", fmt.Sprintf("found-%d.txt", seed))
	if err := os.WriteFile(file, []byte(tell(short, &why)), 0o600); err != nil {
		t.Error(err)
	}
	t.Fatalf("seed %d, shrunk from %d steps, kept as %s:\n%s", seed, len(s.steps), file, tell(short, &why))
}

// TestStoriesCanBeWritten holds the text of stories to what is read of it.
func TestStoriesCanBeWritten(t *testing.T) {
	for seed := range uint64(200) {
		for _, house := range slices.Concat(houses[:3], clusters[:1]) {
			s := draw(seed, house)
			again, err := parseStory(s.String())
			if err != nil {
				t.Fatal(err)
			}
			if again.String() != s.String() {
				t.Fatalf("read as\n%s\nwas\n%s", again, s)
			}
		}
	}
}
