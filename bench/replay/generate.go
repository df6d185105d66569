package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
)

// format writes one line of a log.
type format func(to io.Writer, r *request)

// request is what a line tells.
type request struct {
	at                  time.Time
	from, target, agent string
	size                int
}

func combined(to io.Writer, r *request) {
	fmt.Fprintf(to, "%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"https://shop.example.com/\" \"%s\"\n",
		r.from, r.at.Format("02/Jan/2006:15:04:05 -0700"), r.target, r.size, r.agent)
}

func asObject(to io.Writer, r *request) {
	fmt.Fprintf(to, `{"time":"%s","remote_addr":"%s","request":"GET %s HTTP/1.1","status":200,"body_bytes_sent":%d,"http_referer":"https://shop.example.com/","http_user_agent":"%s"}`+"\n",
		r.at.Format(time.RFC3339Nano), r.from, r.target, r.size, r.agent)
}

var agents = [...]string{
	"Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36",
	"curl/8.16.0",
}

// write writes a log: 500 requests a second of 100,000 clients, of whom few ask
// most, their times out of order by up to two seconds.
func write(name string, line format, packed string, lines int) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriterSize(file, 1<<20)
	var out io.Writer = buffer
	closing := func() error { return nil }
	switch packed {
	case "gzip":
		z := gzip.NewWriter(buffer)
		out, closing = z, z.Close
	case "zstd":
		z, err := zstd.NewWriter(buffer)
		if err != nil {
			return err
		}
		out, closing = z, z.Close
	}
	random := rand.New(rand.NewPCG(2026, 11))
	clients := rand.NewZipf(random, 1.1, 1, 100_000-1)
	begin := time.Date(2026, time.May, 4, 0, 0, 0, 0, time.UTC)
	targets := [...]string{"/", "/login", "/static/app.js", "/search?q=tea"}
	var r request
	for i := range lines {
		c := clients.Uint64()
		r.at = begin.Add(time.Duration(i)*2*time.Millisecond - time.Duration(random.IntN(2000))*time.Millisecond)
		r.from = fmt.Sprintf("10.%d.%d.%d", c>>16, c>>8&255, c&255)
		r.size, r.agent = random.IntN(90_000), agents[random.IntN(len(agents))]
		if n := random.IntN(len(targets) + 1); n < len(targets) {
			r.target = targets[n]
		} else {
			r.target = fmt.Sprintf("/api/items/%d", random.IntN(10_000))
		}
		line(out, &r)
	}
	return errors.Join(closing(), buffer.Flush())
}
