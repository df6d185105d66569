package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkIdle is the processor time of a daemon that nobody asks, in milliseconds a second: of one node of three, and of one on
// memory:. It needs Linux.
func BenchmarkIdle(b *testing.B) {
	const settles, long = 4 * time.Second, 10 * time.Second
	c := newCluster(b, 3)
	defer c.startAll(b)()
	alone := serve(b, c.binary, "--rules", c.rules)
	time.Sleep(settles)
	for b.Loop() {
		node, memory := spent(b, c.nodes[0]), spent(b, alone)
		time.Sleep(long)
		b.ReportMetric((spent(b, c.nodes[0])-node)/long.Seconds(), "cluster-ms/s")
		b.ReportMetric((spent(b, alone)-memory)/long.Seconds(), "memory-ms/s")
	}
	if err := alone.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = alone.Wait() // it was killed
}

// spent is the processor time that a process has had, in milliseconds: of all of its threads, as Linux counts it.
func spent(t testing.TB, p *process) (ms float64) {
	t.Helper()
	tasks := fmt.Sprintf("/proc/%d/task", p.Process.Pid)
	threads, err := os.ReadDir(tasks)
	if err != nil {
		t.Skip("the time of a process is not to be had here:", err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(tasks + "/" + thread.Name() + "/schedstat")
		if err != nil {
			continue // it has ended
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		ms += ns / 1e6
	}
	return ms
}
