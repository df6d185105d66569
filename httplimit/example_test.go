package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })

// ask sends a request to a handler, and prints the status of the answer and some
// of its fields.
func ask(h http.Handler, r *http.Request, fields ...string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Print(w.Code)
	for _, name := range fields {
		fmt.Printf(" %s: %s", name, w.Header().Get(name))
	}
	fmt.Println()
}

func get(target string) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
}

func Example() {
	limit, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
		{Name: "api", Limit: weir.MustParseLimit("2/day"), Key: httplimit.Peer},
	}, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limit(hello)
	for range 3 {
		ask(h, get("/"), "RateLimit-Policy")
	}
	// Output:
	// 200 RateLimit-Policy: "api";q=2;w=86400
	// 200 RateLimit-Policy: "api";q=2;w=86400
	// 429 RateLimit-Policy: "api";q=2;w=86400
}

// Behind proxies the address is in a header, of which only what the proxies wrote
// is believed.
func ExampleAddress() {
	client, err := httplimit.Address(httplimit.Source{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := get("/")
	r.RemoteAddr = "10.0.0.7:5432"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.8") // the client wrote the first
	fmt.Println(client(r))
	r.RemoteAddr = "198.51.100.1:5432" // no proxy of ours
	fmt.Println(client(r))
	// Output:
	// 203.0.113.9 <nil>
	// 198.51.100.1 <nil>
}

// Each user has a count of their own on each route, and nobody's counts are
// anybody else's.
func ExampleJoin() {
	key := httplimit.Join(httplimit.First(httplimit.Header("X-Api-Key"), httplimit.Peer), httplimit.Pattern(nil))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		k, err := key(r)
		fmt.Printf("%q %v\n", k, err)
	})
	for _, target := range []string{"/orders/1", "/orders/2"} {
		r := get(target)
		r.Header.Set("X-Api-Key", "ann")
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// "5:0:ann16:GET /orders/{id}" <nil>
	// "5:0:ann16:GET /orders/{id}" <nil>
}

// What a user may do follows from the plan, but for a few, with whom something
// else was agreed.
func ExampleRule_plan() {
	plans := map[string]*weir.Limit{"free": weir.MustParseLimit("9/day"), "pro": weir.MustParseLimit("1000/day")}
	agreed := map[string]*weir.Limit{"zoe": weir.MustParseLimit("50/day")}
	limit, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{{
		Name: "api", Limit: plans["free"], Key: httplimit.Header("User"),
		Plan: func(r *http.Request) *weir.Limit {
			if l := agreed[r.Header.Get("User")]; l != nil {
				return l
			}
			return plans[r.Header.Get("Plan")]
		},
	}}, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"ann free", "bob pro", "zoe free"} {
		r := get("/")
		name, plan, _ := strings.Cut(user, " ")
		r.Header.Set("User", name)
		r.Header.Set("Plan", plan)
		ask(limit(hello), r, "RateLimit")
	}
	// Output:
	// 200 RateLimit: "api";r=8
	// 200 RateLimit: "api";r=999
	// 200 RateLimit: "api";r=49
}

// Only failed logins count. Until it is known, a try counts, so that a thousand at
// once are no way around.
func ExampleOptions_counts() {
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			http.Error(w, "no", http.StatusUnauthorized)
		}
	})
	limit, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
		{Name: "logins", Limit: weir.MustParseLimit("2/day"), Key: httplimit.Peer},
	}, httplimit.Options{Counts: func(status int) bool { return status == http.StatusUnauthorized }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, password := range []string{"secret", "secret", "guess", "secret", "guess", "secret"} {
		ask(limit(login), get("/login?password="+password))
	}
	// Output:
	// 200
	// 200
	// 401
	// 200
	// 401
	// 429
}

// Rules of a file decide; the program only tells what a request is.
func ExampleNewFromRules() {
	set, err := rules.Parse("shop.yaml", []byte(`domain: shop
descriptors:
  - {key: user, limits: [2/h, 100/day fixed-window]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	limit, err := httplimit.NewFromRules(limiter, "shop", func(r *http.Request, all []rules.Descriptor) []rules.Descriptor {
		return append(all, rules.Descriptor{Entries: []rules.Entry{{Key: "user", Value: r.Header.Get("User")}}, Cost: 1})
	}, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := get("/")
	r.Header.Set("User", "ann")
	ask(limit(hello), r, "RateLimit")
	// Output:
	// 200 RateLimit: "shop/user#1";r=1, "shop/user#2";r=99
}

// A language model costs tokens, and how many is known only when it has answered.
// A request is charged for its prompt and the most that may be generated, is cut
// off there, and gives back what it did not need: also when it fails, or its client
// leaves, in the middle.
func ExampleChargeOf() {
	store, limit := memstore.New(memstore.Options{}), weir.MustParseLimit("1000/day burst 1000")
	m, err := httplimit.New(store, []httplimit.Rule{
		{Name: "requests", Limit: weir.MustParseLimit("60/day"), Key: httplimit.Header("User")},
		{Name: "tokens", Limit: limit, Key: httplimit.Header("User"), Cost: estimate, Unit: "tokens"},
	}, httplimit.Options{Settle: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, prompt := range []string{"Say three words", strings.Repeat("word ", 100)} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/generate", strings.NewReader(prompt))
		r.Header.Set("User", "ann")
		w := httptest.NewRecorder()
		m(http.HandlerFunc(generate)).ServeHTTP(w, r)
		fmt.Println("begun with", w.Header().Get("RateLimit"))
		left, err := weir.NewLimiter(store, "tokens", limit).Ask(context.Background(), weir.Request{Key: "ann", Peek: true})
		fmt.Println(w.Body.Len()/len("hi "), "tokens,", left.Remaining, "left", err)
	}
	// Output:
	// begun with "requests";r=59, "tokens";r=947
	// 3 tokens, 994 left <nil>
	// begun with "requests";r=58, "tokens";r=819
	// 50 tokens, 819 left <nil>
}

// maxTokens is the most that a request may generate.
const maxTokens = 50

// estimate is the most that a request can cost: four bytes of a prompt are a
// token, by a rule of thumb.
func estimate(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return -1 // it does not tell, and is refused
	}
	return r.ContentLength/4 + maxTokens
}

// generate streams a token for each word of the prompt.
func generate(w http.ResponseWriter, r *http.Request) {
	charge := httplimit.ChargeOf(r.Context())
	charge.Use("tokens", 0) // until there is something, nothing is owed
	prompt, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	charge.Use("tokens", int64(len(prompt))/4)
	for range strings.FieldsSeq(string(prompt)) {
		if _, err := io.WriteString(w, "hi "); err != nil || r.Context().Err() != nil {
			return // the client has left
		}
		if !charge.Use("tokens", 1) {
			return // it was not charged for more
		}
	}
}
