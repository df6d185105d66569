package main

import (
	"fmt"
	"math/rand/v2"
)

// The time of the shop, in milliseconds.
const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
)

const site = "https://shop.example.com"

// shop makes up requests. It draws from the generator's 64 bits by itself, as
// only those are promised to stay the same.
type shop struct {
	source   *rand.PCG
	requests []request
}

func newShop() *shop { return &shop{source: rand.NewPCG(2026, 5)} }

// below draws a number from 0 to n−1.
func (s *shop) below(n int) int { return int(s.source.Uint64() % uint64(n)) }

// between draws a number from low to high.
func (s *shop) between(low, high int) int { return low + s.below(high-low+1) }

func (s *shop) ask(r request) {
	if r.begin < hour {
		s.requests = append(s.requests, r)
	}
}

// hour is all that the shop is asked within its hour.
func (s *shop) hour() []request {
	for at := s.below(10 * second); at < hour; at += s.between(2*second, 25*second) {
		s.visit(at)
	}
	s.monitor()
	s.feedReaders()
	s.guesser()
	s.copier()
	return s.requests
}

// visit is one visitor, who looks at a few pages.
func (s *shop) visit(at int) {
	r := request{from: s.address(), user: "-", agent: agents[s.below(len(agents))], referer: "-"}
	if s.below(3) == 0 {
		r.referer = "https://search.example.net/"
	}
	if s.below(12) == 0 {
		r.user = users[s.below(len(users))]
	}
	for range s.between(1, 6) {
		page := s.page()
		s.look(r, at, page)
		r.referer = site + page
		at += s.between(3*second, 50*second)
	}
	if s.below(40) == 0 {
		r.method, r.target, r.status = "GET", "/catalogue.pdf", 200
		r.begin, r.took, r.size = at, s.between(40*second, 200*second), 48_211_904
		s.ask(r)
	}
}

// address is one of a visitor.
func (s *shop) address() string {
	if s.below(4) == 0 {
		return fmt.Sprintf("2001:db8:%x::%x", s.between(1, 40), s.between(1, 4000))
	}
	nets := [...]string{"192.0.2", "198.51.100"}
	return fmt.Sprintf("%s.%d", nets[s.below(len(nets))], s.between(20, 250))
}

func (s *shop) page() string {
	switch s.below(8) {
	case 0:
		return "/"
	case 1, 2:
		return "/search?q=" + words[s.below(len(words))]
	case 3:
		return "/basket"
	default:
		return fmt.Sprintf("/products/%d", s.between(1, 400))
	}
}

// look asks for a page and at once for what belongs to it.
func (s *shop) look(r request, at int, page string) {
	r.begin, r.took, r.method, r.target, r.status, r.size = at, s.between(20, 900), "GET", page, 200, s.between(4_000, 30_000)
	if s.below(30) == 0 {
		r.status, r.size = 404, 1_245
	}
	s.ask(r)
	r.referer = site + page
	for _, asset := range assets {
		if s.below(2) == 0 {
			continue // the browser has it
		}
		r.begin, r.took, r.target = at+s.between(50, 1500), s.between(5, 300), asset
		r.status, r.size = 200, s.between(500, 90_000)
		if s.below(5) == 0 {
			r.status, r.size = 304, 0
		}
		s.ask(r)
	}
}

// monitor looks after the shop every 30 seconds.
func (s *shop) monitor() {
	for at := 7 * second; at < hour; at += 30 * second {
		s.ask(request{
			begin: at, took: s.between(2, 9), from: "192.0.2.10", user: "-",
			method: "HEAD", target: "/healthz", status: 204, referer: "-", agent: "monitor/2.1",
		})
	}
}

// feedReaders come every five minutes, all of them at the same second.
func (s *shop) feedReaders() {
	for at := 0; at < hour; at += 5 * minute {
		for i := range 8 {
			s.ask(request{
				begin: at + s.below(second), took: s.between(5, 80), from: fmt.Sprintf("2001:db8:feed::%d", i+1), user: "-",
				method: "GET", target: "/feed.xml", status: 304, referer: "-", agent: "feeds/1.0 (\\\"reader\\\")",
			})
		}
	}
}

// guesser tries passwords.
func (s *shop) guesser() {
	for at := 31 * minute; at < 36*minute; at += s.between(second, 3*second) {
		s.ask(request{
			begin: at, took: s.between(250, 400), from: "198.51.100.23", user: "-",
			method: "POST", target: "/login", status: 401, size: 312, referer: site + "/login", agent: "curl/8.16.0",
		})
	}
}

// copier takes all that the shop has, as fast as it gets it.
func (s *shop) copier() {
	product := 0
	for at := 12 * minute; at < 21*minute; at += s.between(120, 700) {
		product++
		s.ask(request{
			begin: at, took: s.between(20, 2500), from: "203.0.113.77", user: "-",
			method: "GET", target: fmt.Sprintf("/products/%d?all", product), status: 200, size: s.between(4_000, 30_000),
			referer: "-", agent: "copier/0.3 (+https://copier.example.org/)",
		})
	}
}

var agents = [...]string{
	"Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:149.0) Gecko/20100101 Firefox/149.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 15_7) AppleWebKit/605.1.15 Safari/605.1.15",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 26_2 like Mac OS X) Mobile/15E148",
	"Mozilla/5.0 (compatible; crawler/1.4; +https://search.example.net/bot)",
}

var users = [...]string{"ann", "ben", "cleo"}

var words = [...]string{"teapot", "kettle", "cup", "saucer", "samovar", "strainer", "green+tea"}

var assets = [...]string{"/shop.css", "/shop.js", "/logo.svg", "/icons.woff2", "/images/teapot.jpg"}
