package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

// server is one that tests write: it answers requests on the spot, and notes when
// they came.
type server struct {
	answer func(n int, req *http.Request) *reply // n counts from 0

	mu       sync.Mutex
	began    time.Time
	came     []time.Duration // since began
	bodies   []string
	unclosed int // bodies that were not closed
}

func serve(answer func(n int, req *http.Request) *reply) *server {
	return &server{answer: answer, began: time.Now()}
}

// RoundTrip answers as a base of a Transport.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		sent, _ = io.ReadAll(req.Body)
		_ = req.Body.Close()
	}
	s.mu.Lock()
	n := len(s.came)
	s.came = append(s.came, time.Since(s.began))
	s.bodies = append(s.bodies, string(sent))
	s.unclosed++
	s.mu.Unlock()
	r := s.answer(n, req)
	if r == nil {
		s.closed()
		return nil, errors.New("connection lost")
	}
	resp := &http.Response{StatusCode: r.StatusCode, Header: r.Header, Body: r.Body}
	if resp.Body == nil {
		resp.Body = &noted{strings.NewReader("whatever"), sync.OnceFunc(s.closed)}
	}
	return resp, nil
}

// reply is a response.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       io.ReadCloser
}

func (s *server) closed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unclosed--
}

func (s *server) tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.came)
}

type noted struct {
	io.Reader

	close func()
}

func (n *noted) Close() error {
	n.close()
	return nil
}

// says is an answer with these fields: names and values by turns.
func says(status int, fields ...string) *reply {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &reply{StatusCode: status, Header: h}
}

// always gives the same answer to all.
func always(status int, fields ...string) func(int, *http.Request) *reply {
	return func(int, *http.Request) *reply { return says(status, fields...) }
}

// once is first, then 200.
func once(first *reply) func(int, *http.Request) *reply {
	return func(n int, _ *http.Request) *reply {
		if n == 0 {
			return first
		}
		return says(200)
	}
}

// keeps is a server that keeps a limit and says so.
func keeps(limiter *weir.Limiter) func(int, *http.Request) *reply {
	return func(_ int, req *http.Request) *reply {
		a, err := limiter.Take(req.Context(), "all", 1)
		if err != nil {
			panic(err)
		}
		resp := says(200, "RateLimit", fmt.Sprintf(`"l";r=%d`, a.Remaining))
		if a.NextAfter > 0 {
			resp = says(200, "RateLimit", fmt.Sprintf(`"l";r=0;t=%d`, ceil(a.NextAfter)))
		}
		if a.Outcome != weir.Allowed {
			resp.StatusCode = 429
			resp.Header.Set("Retry-After", strconv.FormatInt(ceil(a.RetryAfter), 10))
		}
		return resp
	}
}

func ceil(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func ownLimit(limit string) *weir.Limiter {
	return weir.NewLimiter(memstore.New(memstore.Options{}), "test", weir.MustParseLimit(limit))
}

func transport(t testing.TB, s *server, o httplimit.TransportOptions) *httplimit.Transport {
	t.Helper()
	o.Base = s
	tr, err := httplimit.NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func send(ctx context.Context, tr *httplimit.Transport) (int, error) {
	return sendTo(ctx, tr, "http://api.example/")
}

func sendTo(ctx context.Context, tr *httplimit.Transport, address string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

// within fails unless d is from…till.
func within(t testing.TB, what string, d, from, till time.Duration) {
	t.Helper()
	if d < from || d > till {
		t.Errorf("%s after %v, want %v…%v", what, d, from, till)
	}
}

func TestTransportKeepsItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(200))
		tr := transport(t, s, httplimit.TransportOptions{Limiter: ownLimit("10/s burst 2")})
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if _, err := send(t.Context(), tr); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		const ms = time.Millisecond
		if diff := cmp.Diff([]time.Duration{0, 0, 100 * ms, 200 * ms, 300 * ms, 400 * ms}, s.came); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTransportCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(200))
		tr := transport(t, s, httplimit.TransportOptions{
			Limiter: ownLimit("1/s burst 5"),
			Cost:    func(*http.Request) int64 { return 4 },
		})
		for range 3 {
			if _, err := send(t.Context(), tr); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]time.Duration{0, 3 * time.Second, 7 * time.Second}, s.came); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTransportNeverComesBackEarlier: whatever the server asks for is waited for,
// and not much more.
func TestTransportNeverComesBackEarlier(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seconds := rapid.IntRange(0, 300).Draw(r, "seconds")
		status := rapid.SampledFrom([]int{429, 503}).Draw(r, "status")
		denials := rapid.IntRange(1, 3).Draw(r, "denials")
		date := rapid.Bool().Draw(r, "date")
		skew := time.Duration(rapid.IntRange(-3600, 3600).Draw(r, "skew")) * time.Second
		var came []time.Duration
		synctest.Test(t, func(t *testing.T) {
			s := serve(func(n int, _ *http.Request) *reply {
				now := time.Now().Add(skew).UTC()
				switch {
				case n >= denials:
					return says(200)
				case date:
					return says(status, "Date", now.Format(http.TimeFormat),
						"Retry-After", now.Add(time.Duration(seconds)*time.Second).Format(http.TimeFormat))
				default:
					return says(status, "Retry-After", strconv.Itoa(seconds))
				}
			})
			tr := transport(t, s, httplimit.TransportOptions{MaxWait: time.Hour})
			if code, err := send(t.Context(), tr); code != 200 || err != nil {
				t.Error(code, err)
			}
			came = s.came
		})
		if len(came) != denials+1 {
			r.Fatalf("%d tries", len(came))
		}
		for i := 1; i < len(came); i++ {
			after := came[i] - came[i-1]
			least := time.Duration(seconds) * time.Second
			if span := max(least/10, 100*time.Millisecond<<(i-1)); after < least || after > least+span {
				r.Fatalf("try %d came %v later, asked for %v", i, after, least)
			}
		}
	})
}

// TestTransportBacksOff: without Retry-After, by exponential backoff, and only the
// request that was refused.
func TestTransportBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(429))
		tr := transport(t, s, httplimit.TransportOptions{MaxTries: 5, Backoff: weir.Backoff{First: time.Second, Most: 3 * time.Second}})
		code, err := send(t.Context(), tr)
		if code != 429 || err != nil || len(s.came) != 5 {
			t.Fatalf("%d, %v after %d tries", code, err, len(s.came))
		}
		within(t, "the last try", s.came[4], 0, (1+2+3+3)*time.Second)
		if s.came[4] == 0 {
			t.Error("it does not wait at all")
		}
	})
}

func TestTransportResetStandsInForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(once(says(429, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7")))
		if code, err := send(t.Context(), transport(t, s, httplimit.TransportOptions{})); code != 200 || err != nil {
			t.Error(code, err)
		}
		within(t, "the second try", s.came[1], 7*time.Second, 7700*time.Millisecond)

		s = serve(once(says(429, "Retry-After", "2", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7"))) // Retry-After wins
		if code, err := send(t.Context(), transport(t, s, httplimit.TransportOptions{})); code != 200 || err != nil {
			t.Error(code, err)
		}
		within(t, "the second try", s.came[1], 2*time.Second, 2200*time.Millisecond)
	})
}

// TestTransportReplaysWhatIsSafe: what is sent again, and with what body.
func TestTransportReplaysWhatIsSafe(t *testing.T) {
	const body = "the body"
	rewinds := func() io.Reader { return strings.NewReader(body) } // http.NewRequest sets GetBody
	onlyOnce := func() io.Reader { return io.LimitReader(strings.NewReader(body), 100) }
	none := func() io.Reader { return nil }
	for _, c := range []struct {
		method string
		status int
		body   func() io.Reader
		field  string
		tries  int
	}{
		{"GET", 429, none, "", 2},
		{"GET", 503, none, "", 2},
		{"PUT", 503, rewinds, "", 2},
		{"DELETE", 503, none, "", 2},
		{"POST", 429, none, "", 2},
		{"POST", 429, rewinds, "", 2},
		{"POST", 429, onlyOnce, "", 1},
		{"PUT", 429, onlyOnce, "", 1},
		{"POST", 503, none, "", 1},
		{"PATCH", 503, rewinds, "", 1},
		{"POST", 503, rewinds, "Idempotency-Key", 2},
		{"PATCH", 503, rewinds, "X-Idempotency-Key", 2},
		{"POST", 503, onlyOnce, "Idempotency-Key", 1},
		{"GET", 500, none, "", 1},
		{"GET", 502, none, "", 1},
		{"GET", 403, none, "", 1},
		{"GET", 200, none, "", 1},
	} {
		t.Run(fmt.Sprint(c.method, c.status, c.field), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(once(says(c.status, "Retry-After-Never-Mind", "1")))
				req, err := http.NewRequestWithContext(t.Context(), c.method, "http://api.example/", c.body())
				if err != nil {
					t.Fatal(err)
				}
				if c.field != "" {
					req.Header.Set(c.field, "8e03978e")
				}
				resp, err := transport(t, s, httplimit.TransportOptions{}).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Request != req {
					t.Error("the answer is not to the request that was asked")
				}
				if err := resp.Body.Close(); err != nil || s.unclosed > 0 {
					t.Errorf("%v, %d bodies are open", err, s.unclosed)
				}
				want := ""
				if c.body() != nil {
					want = body
				}
				for _, got := range s.bodies {
					if got != want {
						t.Errorf("body %q", got)
					}
				}
				if s.tries() != c.tries {
					t.Errorf("%d tries, want %d", s.tries(), c.tries)
				}
			})
		})
	}
}

// TestTransportHandsOnWhatComesTooLate: a server that says to come back later than
// there is time for gets its answer through, at once, and no other request is held
// for it.
func TestTransportHandsOnWhatComesTooLate(t *testing.T) {
	for _, c := range []struct {
		name, after string
		patience    time.Duration
	}{
		{"more than MaxWait", "61", time.Hour},
		{"absurd", "99999999999999999999999999", time.Hour},
		{"a date of the far future", "Fri, 31 Dec 9999 23:59:59 GMT", time.Hour},
		{"more than the deadline", "10", 9 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(once(says(429, "Retry-After", c.after)))
				tr := transport(t, s, httplimit.TransportOptions{})
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				began := time.Now()
				if code, err := send(ctx, tr); code != 429 || err != nil || time.Since(began) > 0 {
					t.Errorf("%d, %v after %v", code, err, time.Since(began))
				}
				if c.patience < time.Minute {
					return
				}
				if code, err := send(ctx, tr); code != 200 || err != nil || time.Since(began) > time.Second {
					t.Errorf("then %d, %v after %v", code, err, time.Since(began))
				}
			})
		})
	}
}

// TestTransportAsksSeldomWhatRefusesForLong: a server that refuses for an hour is not
// asked as fast as it answers, and the first answer that passes ends that.
func TestTransportAsksSeldomWhatRefusesForLong(t *testing.T) {
	for _, answer := range []*reply{
		says(403, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "3600"),
		says(429, "Retry-After", "3600"),
		says(503, "Retry-After", "3600"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(func(n int, _ *http.Request) *reply {
				if n >= 60 {
					return says(200)
				}
				return answer
			})
			tr := transport(t, s, httplimit.TransportOptions{})
			began := time.Now()
			for range 60 {
				if code, err := send(t.Context(), tr); code == 200 || err != nil {
					t.Fatal(code, err)
				}
			}
			within(t, "60 that are refused", time.Since(began), 59*time.Second, 59*time.Second)
			for range 100 {
				if code, err := send(t.Context(), tr); code != 200 || err != nil {
					t.Fatal(code, err)
				}
			}
			within(t, "with 100 that are not", time.Since(began), time.Minute, time.Minute)
		})
	}
}

// TestTransportDoesNotWaitInVain: who can't wait for as long as the server has
// asked others to is told at once, and how long it would be; the rest waits.
func TestTransportDoesNotWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(once(says(429, "Retry-After", "10")))
		tr := transport(t, s, httplimit.TransportOptions{MaxTries: 1})
		if code, err := send(t.Context(), tr); code != 429 || err != nil {
			t.Fatal(code, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		began := time.Now()
		_, err := send(short, tr)
		denied, ok := errors.AsType[*weir.DeniedError](err)
		if !ok || time.Since(began) > 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		within(t, "it may come back", denied.Answer.RetryAfter, 10*time.Second, 11*time.Second)

		long, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if code, err := send(long, tr); code != 200 || err != nil {
			t.Error(code, err)
		}
		within(t, "the patient one came", s.came[1], 10*time.Second, 11*time.Second)
	})
}

// TestTransportHeldWhileItWaits: a hold that others learn of ends the wait of who
// has not the time for it.
func TestTransportHeldWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(n int, _ *http.Request) *reply {
			time.Sleep(time.Second)
			return says(429, "Retry-After", "30")
		})
		tr := transport(t, s, httplimit.TransportOptions{MaxTries: 1, Limiter: ownLimit("1/5s burst 1")})
		var all sync.WaitGroup
		all.Go(func() { _, _ = send(t.Context(), tr) })
		synctest.Wait()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			began := time.Now()
			_, err := send(ctx, tr)
			if _, ok := errors.AsType[*weir.DeniedError](err); !ok || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
		all.Wait()
	})
}

// TestTransportSlowsDownBeforeItIsDenied: a client that asks without a pause, many
// at a time, of a server that tells its limit is never denied.
func TestTransportSlowsDownBeforeItIsDenied(t *testing.T) {
	for _, limit := range []string{"5/s burst 10", "100/min fixed-window anchored", "20/10s sliding-window 5", "1/s"} {
		for _, workers := range []int{1, 8} {
			t.Run(fmt.Sprint(limit, " ", workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					keep := keeps(ownLimit(limit))
					spec := weir.MustParseLimit(limit).Spec()
					quota := spec.Count
					window := spec.Period
					if spec.Burst > 0 {
						quota, window = spec.Burst, spec.Period*time.Duration(spec.Burst)/time.Duration(spec.Count)
					}
					var denials int
					s := serve(func(n int, req *http.Request) *reply {
						resp := keep(n, req)
						resp.Header.Set("RateLimit-Policy", fmt.Sprintf(`"l";q=%d;w=%d`, quota, ceil(window)))
						if resp.StatusCode == 429 {
							denials++
						}
						time.Sleep(20 * time.Millisecond)
						return resp
					})
					tr := transport(t, s, httplimit.TransportOptions{MaxWait: time.Hour})
					_, _ = send(t.Context(), tr) // who has never asked knows nothing
					var all sync.WaitGroup
					for range workers {
						all.Go(func() {
							for range 240 / workers {
								if code, err := send(t.Context(), tr); code != 200 || err != nil {
									t.Error(code, err)
								}
							}
						})
					}
					all.Wait()
					took, fair := time.Since(s.began), window*240/time.Duration(quota)
					t.Logf("%v for what the limit lets pass in %v, %d denials", took, fair, denials)
					if denials > 0 {
						t.Errorf("%d denials", denials)
					}
					if took > 5*fair/2 {
						t.Errorf("it took %v, and the limit would let that pass in %v", took, fair)
					}
				})
			})
		}
	}
}

// TestTransportGoesOneByOneAfterAHold: when the time is over that a server asked
// for, one goes and the others wait for its answer; then two, then four.
func TestTransportGoesOneByOneAfterAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(n int, _ *http.Request) *reply {
			time.Sleep(300 * time.Millisecond)
			if n == 0 {
				return says(200, "RateLimit", `"l";r=0;t=5`)
			}
			return says(200)
		})
		tr := transport(t, s, httplimit.TransportOptions{})
		_, _ = send(t.Context(), tr)
		var all sync.WaitGroup
		for range 7 {
			all.Go(func() { _, _ = send(t.Context(), tr) })
		}
		all.Wait()
		first := s.came[1]
		within(t, "the first", first, 5300*time.Millisecond, 5800*time.Millisecond)
		const once, twice = 300 * time.Millisecond, 600 * time.Millisecond
		for i, after := range []time.Duration{once, once, twice, twice, twice, twice} {
			within(t, "another", s.came[2+i]-first, after, after)
		}
	})
}

// TestTransportRetryBudget: a server that refuses all is not asked much more often
// than without retries.
func TestTransportRetryBudget(t *testing.T) {
	for _, c := range []struct{ percent, most int }{{0, 2000 + 200 + 10*3}, {50, 2000 + 1000 + 10*3}} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(always(429))
			tr := transport(t, s, httplimit.TransportOptions{MaxTries: 100, RetryPercent: c.percent})
			var all sync.WaitGroup
			for range 2000 {
				time.Sleep(5 * time.Millisecond)
				all.Go(func() { _, _ = send(t.Context(), tr) })
			}
			all.Wait()
			if n := s.tries(); n > c.most || n < c.most*8/10 {
				t.Errorf("%d %%: 2000 requests were sent %d times, want about %d", c.percent, n, c.most)
			}
		})
	}
}

func TestTransportQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(200))
		tr := transport(t, s, httplimit.TransportOptions{Limiter: ownLimit("1/s"), MaxWaiting: 3})
		var all sync.WaitGroup
		var full int
		var mu sync.Mutex
		for range 10 {
			all.Go(func() {
				began := time.Now()
				_, err := send(t.Context(), tr)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, httplimit.ErrQueueFull) && time.Since(began) == 0 {
					full++
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if full+s.tries() != 10 || full < 6 || full > 7 {
			t.Errorf("%d were turned away, %d were sent", full, s.tries())
		}
		if code, err := sendTo(t.Context(), tr, "http://another.example/"); code != 200 || err != nil {
			t.Error("another host: ", code, err)
		}
	})
}

// TestTransportPriority: the highest goes first, and equals as they came; when
// some have waited for long, the last of them go first.
func TestTransportPriority(t *testing.T) {
	for _, c := range []struct {
		name     string
		patience time.Duration
		want     []string
	}{
		{"calm", time.Hour, []string{"/0/0", "/2/7", "/2/8", "/1/4", "/1/5", "/1/6", "/0/1", "/0/2", "/0/3"}},
		{"overloaded", 7900 * time.Millisecond, []string{"/0/0", "/2/7", "/2/8", "/1/4", "/1/6", "/1/5", "/0/3", "/0/2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				s := serve(func(_ int, req *http.Request) *reply {
					order = append(order, req.URL.Path)
					return says(200)
				})
				tr := transport(t, s, httplimit.TransportOptions{
					Limiter: ownLimit("1/s burst 1"), MaxWait: c.patience,
					Priority: func(req *http.Request) int { return int(req.URL.Path[1] - '0') },
				})
				var all sync.WaitGroup
				var late int
				for i, priority := range []int{0, 0, 0, 0, 1, 1, 1, 2, 2} {
					all.Go(func() {
						_, err := sendTo(t.Context(), tr, fmt.Sprintf("http://api.example/%d/%d", priority, i))
						if _, ok := errors.AsType[*weir.DeniedError](err); ok {
							late++
						} else if err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				if diff := cmp.Diff(c.want, order); diff != "" || late != 9-len(c.want) {
					t.Errorf("%d were too late\n%s", late, diff)
				}
			})
		})
	}
}

// TestTransportContextEnds: who leaves the queue is not sent, and gives back what
// it had taken of the own limit.
func TestTransportContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(200))
		own := ownLimit("1/10s leaky-queue")
		tr := transport(t, s, httplimit.TransportOptions{Limiter: own})
		if _, err := send(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the user has left")
		time.AfterFunc(time.Second, func() { cancel(gone) })
		body := &noted{strings.NewReader("x"), func() {}}
		closed := false
		body.close = func() { closed = true }
		req, err := http.NewRequestWithContext(ctx, "POST", "http://api.example/", body)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := tr.RoundTrip(req); !errors.Is(err, gone) {
			_ = resp.Body.Close()
			t.Error(err)
		}
		if !closed {
			t.Error("the body of the request is open")
		}
		if _, err := send(t.Context(), tr); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]time.Duration{0, 10 * time.Second}, s.came); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTransportPermits: permits of the own limit come back when the body is closed
// or read to its end, when there is no answer, and when Base panics.
func TestTransportPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(n int, _ *http.Request) *reply {
			switch n % 4 {
			case 0:
				return nil
			case 1:
				panic("base")
			case 2:
				return says(429)
			}
			return says(200)
		})
		tr := transport(t, s, httplimit.TransportOptions{Limiter: ownLimit("1 concurrent ttl 1h")})
		for n := range 8 {
			func() {
				defer func() { _ = recover() }()
				_, _ = send(t.Context(), tr)
			}()
			if took := time.Since(s.began); took > time.Minute {
				t.Fatalf("request %d waited until %v", n, took)
			}
		}

		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://api.example/", nil)
		s.answer = always(200)
		held, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(5*time.Second, func() {
			_ = held.Body.Close()
			_ = held.Body.Close() // twice is once
		})
		if code, err := send(t.Context(), tr); code != 200 || err != nil || time.Since(began) != 5*time.Second {
			t.Error(code, err, time.Since(began))
		}
	})
}

// TestTransportManyHosts: a program that asks many hosts keeps no more of them
// than a bound, and asks them all.
func TestTransportManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5"))
		tr := transport(t, s, httplimit.TransportOptions{})
		for i := range 3000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if code, err := sendTo(ctx, tr, fmt.Sprintf("http://h%d.example/", i)); (code != 200 || err != nil) && i <= 1024 {
				t.Fatal(i, code, err)
			}
			cancel()
		}
		time.Sleep(time.Minute)
		for i := range 3000 {
			if code, err := sendTo(t.Context(), tr, fmt.Sprintf("http://i%d.example/", i)); code != 200 || err != nil {
				t.Fatal(i, code, err)
			}
		}
	})
}

func TestTransportOptions(t *testing.T) {
	_, err := httplimit.NewTransport(httplimit.TransportOptions{MaxWaiting: -1, MaxWait: -1, MaxTries: -1, RetryPercent: 101})
	for _, name := range []string{"MaxWaiting", "MaxWait", "MaxTries", "RetryPercent"} {
		if err == nil || !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("%v, want a word about %s", err, name)
		}
	}
	if _, err := httplimit.NewTransport(httplimit.TransportOptions{}); err != nil {
		t.Error(err)
	}
}

// TestTransportOwnLimitOutOfReach: a cost that can never pass, and a store that
// does not answer, fail at once.
func TestTransportOwnLimitOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(always(200))
		tr := transport(t, s, httplimit.TransportOptions{Limiter: ownLimit("1/s burst 5"), Cost: func(*http.Request) int64 { return 6 }})
		_, err := send(t.Context(), tr)
		if denied, ok := errors.AsType[*weir.DeniedError](err); !ok || denied.Answer.Outcome != weir.Impossible {
			t.Error(err)
		}
		tr = transport(t, s, httplimit.TransportOptions{Limiter: ownLimit("1/s burst 5"), Cost: func(*http.Request) int64 { return -6 }})
		if _, err = send(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "cost") {
			t.Error(err)
		}
		if s.tries() > 0 {
			t.Error("it was sent")
		}
	})
}

// TestTransportUpgrade: what a connection has become after 101 can be written to.
func TestTransportUpgrade(t *testing.T) {
	r, w := io.Pipe()
	upgraded := says(101)
	upgraded.Body = struct {
		io.ReadCloser
		io.Writer
	}{r, w}
	tr := transport(t, serve(once(upgraded)), httplimit.TransportOptions{})
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://api.example/", nil)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	both, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T", resp.Body)
	}
	go func() { _, _ = both.Write([]byte("hello")) }()
	got := make([]byte, 5)
	if _, err := io.ReadFull(both, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if err := both.Close(); err != nil {
		t.Error(err)
	}
}

// TestTransportDrainsWithABound: an answer without end does not keep its request
// from being sent again.
func TestTransportDrainsWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, endless := range map[string]io.Reader{
			"fast": strings.NewReader(strings.Repeat("x", 1<<20)),
			"slow": &drip{closed: make(chan struct{})},
		} {
			refused := says(429, "Retry-After", "3")
			refused.Body = io.NopCloser(endless)
			if d, ok := endless.(*drip); ok {
				refused.Body = d
			}
			s := serve(once(refused))
			tr := transport(t, s, httplimit.TransportOptions{})
			if code, err := send(t.Context(), tr); code != 200 || err != nil {
				t.Error(name, code, err)
			}
			within(t, name, s.came[1], 3*time.Second, 3300*time.Millisecond)
			if r, ok := endless.(*strings.Reader); ok && r.Len() != 1<<20-64<<10 {
				t.Errorf("%d bytes are left", r.Len())
			}
		}
	})
}

// drip is a body that has a byte every 100 ms until it is closed.
type drip struct{ closed chan struct{} }

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Millisecond):
		return copy(p, "x"), nil
	case <-d.closed:
		return 0, http.ErrBodyReadAfterClose
	}
}

func (d *drip) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return nil
}

// TestTransportNoBody: what http.Client takes from a RoundTripper, it takes from one
// that is around it: an answer without a body, refused and not.
func TestTransportNoBody(t *testing.T) {
	status := http.StatusTooManyRequests
	tr, err := httplimit.NewTransport(httplimit.TransportOptions{Base: roundTripper(func(*http.Request) (*http.Response, error) {
		defer func() { status = http.StatusOK }()
		return &http.Response{StatusCode: status}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := send(t.Context(), tr); code != http.StatusOK || err != nil {
		t.Error(code, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestTransportInAClient: http.Client sees errors, timeouts and redirects as with
// any transport.
func TestTransportInAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(_ int, req *http.Request) *reply {
			switch req.URL.Path {
			case "/moved":
				return says(307, "Location", "http://other.example/here")
			case "/limited":
				return says(429, "Retry-After", "30")
			}
			return says(200)
		})
		c := &http.Client{Transport: transport(t, s, httplimit.TransportOptions{}), Timeout: 10 * time.Second}
		for _, step := range []struct {
			path string
			want int
		}{{"/moved", 200}, {"/limited", 429}} {
			resp, err := c.Get("http://api.example" + step.path) //nolint:noctx // Timeout is what is tested
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != step.want {
				t.Errorf("%s: %d", step.path, resp.StatusCode)
			}
		}
		resp, err := c.Get("http://api.example/") //nolint:noctx // Timeout is what is tested
		if err == nil {
			_ = resp.Body.Close()
		}
		_, denied := errors.AsType[*weir.DeniedError](err)
		if _, ok := errors.AsType[*url.Error](err); !ok || !denied || time.Since(s.began) > 0 {
			t.Errorf("%v after %v", err, time.Since(s.began))
		}
		c.CloseIdleConnections()
	})
}
