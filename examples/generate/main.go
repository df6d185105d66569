// Command generate writes examples/access.log: an hour of a small shop that
// never was, in the combined format, the same bytes on every machine.
//
// Visitors look at pages, a monitor and feed readers come by the clock, one
// client guesses passwords and one copies the whole catalogue. As Apache does,
// the log names the time at which a request began, and has its line when the
// request was done: so the times are out of order, by up to some minutes for
// large downloads. A few lines are damaged. All addresses and names are those
// that are kept for documentation.
package main

//go:generate go run . -o ../access.log

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

func main() {
	to := flag.String("o", "access.log", "the file to write")
	flag.Parse()
	if err := writeFile(*to); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func writeFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	return f.Close()
}

// request is one line to be. Its times are milliseconds since the hour began.
type request struct {
	begin, took    int
	from, user     string
	method, target string
	status, size   int
	referer, agent string
}

// write writes the log.
func write(to io.Writer) error {
	requests := newShop().hour()
	slices.SortStableFunc(requests, func(a, b request) int { return a.begin + a.took - b.begin - b.took })
	out := bufio.NewWriter(to)
	for i, r := range requests {
		if i%damagedEvery == damagedEvery/2 {
			fmt.Fprintf(out, "%s\n", damaged[i/damagedEvery%len(damaged)])
		}
		fmt.Fprintf(out, "%s - %s [%s] \"%s %s HTTP/1.1\" %d %d \"%s\" \"%s\"\n",
			r.from, r.user, clock(r.begin), r.method, r.target, r.status, r.size, r.referer, r.agent)
	}
	return out.Flush()
}

// clock is a time in the words of the common log format.
func clock(ms int) string {
	begin := time.Date(2026, time.May, 4, 10, 0, 0, 0, time.UTC)
	return begin.Add(time.Duration(ms) * time.Millisecond).Format("02/Jan/2006:15:04:05 -0700")
}

// damagedEvery is how many lines there are to each damaged one.
const damagedEvery = 900

// damaged are lines that can't be read, as logs have them.
var damaged = [...]string{
	`198.51.100.9 - - [04/May/2026:10:05:51 +0000] "-" 408 0 "-" "-"`,
	`198.51.100.14 - - [04/May/2026:10:16:02 +0000] "\x16\x03\x01\x01\x10\x01" 400 226 "-" "-"`,
	`192.0.2.141 - - [04/May/2026:10:2`,
	``,
	`AH00094: Command line: '/usr/sbin/httpd -D FOREGROUND'`,
	`203.0.113.5 - - [04/May/2026:10:50:71 +0000] "GET / HTTP/1.1" 200 5120 "-" "-"`,
}
