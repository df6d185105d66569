package jointstest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/rules"
)

// listeners are the ways to ask. What they are asked alike is one count.
var listeners = []string{"http", "json", "grpc", "resp", "middleware", "program"}

// front is a node, or a program, as callers see it.
type front struct {
	http, admin http.Handler
	grpc        rls.RateLimitServiceClient
	resp        net.Conn
	respIn      *bufio.Reader
	dialGRPC    func() (string, error)
	dialRESP    func() (string, error)
	limiter     *rules.Limiter // in this process; nil: it is in a daemon
	traits      weir.Traits    // of its store
	receipts    map[string]heldReceipts
	closers     []io.Closer
	leave       func() // nil: there is nothing to leave
}

// heldReceipts are receipts of a program.
type heldReceipts struct {
	receipts []*weir.Receipt
	of       [][]int
}

// asked is an answer, and the receipt that came with it.
type asked struct {
	oracle.Answer

	receipt string
}

func failed(format string, a ...any) asked {
	return asked{Answer: oracle.Answer{Failed: fmt.Sprintf(format, a...)}}
}

func lost() asked { return asked{Answer: oracle.Answer{Lost: true}} }

// ask asks a listener.
func (f *front) ask(ctx context.Context, s *step) asked {
	switch s.listener {
	case "http":
		return f.askHTTP(s)
	case "json":
		return f.askJSON(s)
	case "grpc":
		return f.askGRPC(ctx, s)
	case "resp":
		return f.askRESP(s)
	case "middleware":
		return f.askMiddleware(ctx, s)
	}
	return f.askProgram(ctx, s)
}

// keeps is whether the store of the limiter can keep a limit.
func (f *front) keeps(l *weir.Limit) bool { return l.Unfit(f.traits) == "" }

// serves is whether a front can be asked so.
func (f *front) serves(s *step) bool {
	switch s.listener {
	case "http":
		for _, d := range s.asks {
			if d.Cost > oracle.MaxCost || d.Override != "" {
				return false
			}
		}
		return f.http != nil
	case "json", "grpc":
		return f.http != nil && s.receipt == "" && !s.peek
	case "resp":
		return f.dialRESP != nil && s.receipt == "" && !s.peek && len(s.asks) == 1 && s.asks[0].Cost <= oracle.MaxCost && !overrides(s)
	case "middleware":
		return f.limiter != nil && s.receipt == "" && !s.peek && !overrides(s)
	}
	return f.limiter != nil && !overrides(s)
}

func overrides(s *step) bool {
	for _, d := range s.asks {
		if d.Override != "" {
			return true
		}
	}
	return false
}

// call asks a handler, in this process or by a connection.
func call(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// remote is a handler that asks a daemon.
type remote struct {
	address string
	client  *http.Client
	token   string // empty: none is shown
}

// distant is the HTTP listeners of a daemon, asked by connections of their own.
func distant(f *front, listener, admin, token string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	client := &http.Client{Transport: transport, Timeout: patience}
	f.http, f.admin = remote{listener, client, ""}, remote{admin, client, token}
	f.leave = transport.CloseIdleConnections
}

// silent is the status of an answer that did not come.
const silent = 599

func (r remote) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	q, err := http.NewRequestWithContext(in.Context(), in.Method, "http://"+r.address+in.URL.RequestURI(), in.Body)
	if err == nil {
		q.ContentLength, q.Header = in.ContentLength, in.Header
		if r.token != "" {
			q.Header.Set("Authorization", "Bearer "+r.token)
		}
		var a *http.Response
		if a, err = r.client.Do(q); err == nil {
			defer a.Body.Close()
			w.Header().Set("ETag", a.Header.Get("ETag"))
			w.WriteHeader(a.StatusCode)
			_, _ = io.Copy(w, a.Body) // what is cut off is no answer
			return
		}
	}
	w.WriteHeader(silent)
	_, _ = io.WriteString(w, err.Error())
}

func checkBody(s *step) string {
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	type descriptor struct {
		Entries []entry `json:"entries"`
		Cost    int64   `json:"cost"`
	}
	body := struct {
		Domain      string       `json:"domain"`
		Descriptors []descriptor `json:"descriptors"`
		Peek        bool         `json:"peek"`
		Receipt     bool         `json:"receipt"`
	}{Domain: "d", Peek: s.peek, Receipt: s.receipt != ""}
	for _, d := range s.asks {
		body.Descriptors = append(body.Descriptors, descriptor{[]entry{{d.Key, d.Value}}, d.Cost})
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (f *front) askHTTP(s *step) asked {
	w := call(f.http, http.MethodPost, "/v1/check", checkBody(s))
	if w.Code == silent {
		return lost()
	}
	var in struct {
		Allowed   bool
		Decisive  *int
		Receipt   string
		Decisions []struct {
			Descriptor int
			Outcome    string
			Charged    bool
			Remaining  int64
			Retry      json.Number `json:"retry_after_seconds"`
			Degraded   string
			Shadow     bool
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &in); err != nil || w.Code != 200 && w.Code != 429 && w.Code != 503 {
		return failed("status %d %s", w.Code, w.Body)
	}
	if w.Code == 503 && in.Decisions == nil {
		return lost()
	}
	a := asked{Answer: oracle.Answer{Allowed: in.Allowed, Decisive: -1, Decisions: []oracle.Decision{}}, receipt: in.Receipt}
	if in.Decisive != nil {
		a.Decisive = *in.Decisive
	}
	away := false
	for _, d := range in.Decisions {
		a.Decisions = append(a.Decisions, oracle.Decision{
			Descriptor: d.Descriptor, Outcome: d.Outcome, Told: true, Charged: d.Charged, Remaining: d.Remaining,
			Retry: microseconds(d.Retry), Degraded: d.Degraded != "",
		})
		away = away || d.Degraded == "closed"
	}
	if (w.Code == 200) != in.Allowed || w.Code == 503 && !away {
		return failed("status %d, and allowed is %v", w.Code, in.Allowed)
	}
	return a
}

func microseconds(n json.Number) int64 {
	whole, part, _ := strings.Cut(n.String(), ".")
	us, _ := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	return us
}

var envoyUnits = map[string]envoytype.RateLimitUnit{
	"s": envoytype.RateLimitUnit_SECOND, "min": envoytype.RateLimitUnit_MINUTE, "h": envoytype.RateLimitUnit_HOUR,
}

// envoyRequest is a step in Envoy's words.
func envoyRequest(s *step) *rls.RateLimitRequest {
	q := &rls.RateLimitRequest{Domain: "d"}
	for _, d := range s.asks {
		in := &ratelimit.RateLimitDescriptor{
			Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: d.Key, Value: d.Value}},
			HitsAddend: wrapperspb.UInt64(uint64(d.Cost)),
		}
		if d.Override != "" {
			l, err := oracle.Parse(d.Override)
			if err != nil {
				panic(err)
			}
			in.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(l.Count), Unit: envoyUnits[l.Unit]}
		}
		q.Descriptors = append(q.Descriptors, in)
	}
	return q
}

// envoyAnswer is what a response says; of limits it tells nothing.
func envoyAnswer(a *rls.RateLimitResponse) asked {
	return asked{Answer: oracle.Answer{Allowed: a.GetOverallCode() == rls.RateLimitResponse_OK, Decisive: -2}}
}

func (f *front) askJSON(s *step) asked {
	body, err := protojson.Marshal(envoyRequest(s))
	if err != nil {
		return failed("%v", err)
	}
	w := call(f.http, http.MethodPost, "/json", string(body))
	if w.Code == silent {
		return lost()
	}
	var a rls.RateLimitResponse
	err = protojson.Unmarshal(w.Body.Bytes(), &a)
	if err != nil && w.Code == 503 {
		return lost()
	}
	if err != nil || w.Code != 200 && w.Code != 429 && w.Code != 503 {
		return failed("status %d %s", w.Code, w.Body)
	}
	return envoyAnswer(&a)
}

func (f *front) askGRPC(ctx context.Context, s *step) asked {
	calls, err := f.calls()
	if err != nil {
		return failed("%v", err)
	}
	a, err := calls.ShouldRateLimit(ctx, envoyRequest(s))
	late := []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled}
	if slices.Contains(late, status.Code(err)) {
		return lost()
	}
	if err != nil {
		return failed("%v", err)
	}
	return envoyAnswer(a)
}

func (f *front) askRESP(s *step) asked {
	d := s.asks[0]
	if _, err := f.commands(); err != nil {
		return failed("%v", err)
	}
	_ = f.resp.SetDeadline(time.Now().Add(10 * time.Second)) // reading tells
	if _, err := fmt.Fprintf(f.resp, "WEIR.CHECK d %d %s %s\r\n", d.Cost, d.Key, d.Value); err != nil {
		return lost()
	}
	line, err := f.respIn.ReadString('\n')
	if err != nil {
		return lost()
	}
	if !strings.HasPrefix(line, "*6") {
		return failed("%s", line)
	}
	var numbers [5]int64
	for i := range numbers {
		if line, err = f.respIn.ReadString('\n'); err != nil {
			return lost()
		}
		numbers[i], _ = strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
	}
	for range 2 { // the rule
		if _, err = f.respIn.ReadString('\n'); err != nil {
			return lost()
		}
	}
	return asked{Answer: oracle.Answer{Allowed: numbers[0] == 0, Decisive: -2}}
}

// askMiddleware asks as a program whose handlers are held to rules.
func (f *front) askMiddleware(ctx context.Context, s *step) asked {
	describe := func(_ *http.Request, all []rules.Descriptor) []rules.Descriptor {
		return append(all, descriptors(s)...)
	}
	around, err := httplimit.NewFromRules(f.limiter, "d", describe, httplimit.Options{})
	if err != nil {
		return failed("%v", err)
	}
	passed := false
	// It is held where a queue says so, and leaves soon.
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	inner := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })
	w := httptest.NewRecorder()
	around(inner).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	switch {
	case w.Code == 503:
		return lost()
	case w.Code != 200 && w.Code != 429 || passed != (w.Code == 200):
		return failed("status %d, passed %v: %s", w.Code, passed, w.Body)
	}
	return asked{Answer: oracle.Answer{Allowed: passed, Done: true, Decisive: -2}}
}

func descriptors(s *step) (all []rules.Descriptor) {
	for _, d := range s.asks {
		all = append(all, rules.Descriptor{Entries: []rules.Entry{{Key: d.Key, Value: d.Value}}, Cost: d.Cost})
	}
	return all
}

// askProgram asks rules as a Go program does.
func (f *front) askProgram(ctx context.Context, s *step) (out asked) {
	defer func() {
		if p := recover(); p != nil {
			out = failed("panic: %v", p)
		}
	}()
	q := rules.Request{Domain: "d", Descriptors: descriptors(s), Peek: s.peek, Receipt: s.receipt != "", AnyCost: true}
	a, err := f.limiter.Check(ctx, &q)
	if err != nil {
		return lostOr(err)
	}
	out = asked{Answer: oracle.Answer{Allowed: a.Allowed, Decisive: a.Decisive, Decisions: []oracle.Decision{}}}
	held, at := heldReceipts{}, map[*weir.Receipt]int{}
	for i := range a.Decisions {
		d := &a.Decisions[i]
		out.Decisions = append(out.Decisions, oracle.Decision{
			Descriptor: d.Descriptor, Outcome: d.Outcome.String(), Told: true, Charged: d.Charged, Remaining: d.Remaining,
			Retry: ceilMicroseconds(d.RetryAfter), Degraded: d.Degraded != "",
		})
		if d.Receipt == nil || d.Cost == 0 {
			continue
		}
		if _, ok := at[d.Receipt]; !ok {
			at[d.Receipt] = len(held.receipts)
			held.receipts, held.of = append(held.receipts, d.Receipt), append(held.of, nil)
		}
		held.of[at[d.Receipt]] = append(held.of[at[d.Receipt]], d.Descriptor)
	}
	if len(held.receipts) > 0 {
		out.receipt = "program/" + s.receipt
		f.receipts[out.receipt] = held
	}
	return out
}

func ceilMicroseconds(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// lostOr is an answer that nobody heard, or that is none.
func lostOr(err error) asked {
	for _, away := range []error{weir.ErrAway, weir.ErrBusy, context.DeadlineExceeded} {
		if strings.Contains(err.Error(), away.Error()) {
			return lost()
		}
	}
	return failed("%v", err)
}

// settle settles a receipt, and gives the status that HTTP has for what came of it.
func (f *front) settle(ctx context.Context, receipt string, used []int64) int {
	if held, ok := f.receipts[receipt]; ok {
		return f.settleHeld(ctx, held, used)
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"receipt":%q,"used":`, receipt)
	if len(used) == 1 {
		fmt.Fprint(&body, used[0])
	} else {
		text, _ := json.Marshal(used)
		body.Write(text)
	}
	body.WriteByte('}')
	return call(f.http, http.MethodPost, "/v1/settle", body.String()).Code
}

func (f *front) settleHeld(ctx context.Context, held heldReceipts, used []int64) int {
	each := make([]int64, len(held.receipts))
	for i, of := range held.of {
		for _, d := range of {
			if len(used) == 1 {
				each[i] += used[0]
			} else {
				each[i] += used[d]
			}
		}
	}
	switch _, err := f.limiter.Settle(ctx, held.receipts, each, false); {
	case err == nil:
		return 200
	case strings.Contains(err.Error(), weir.ErrSettled.Error()), strings.Contains(err.Error(), weir.ErrExpired.Error()):
		return 409
	case lostOr(err).Lost, strings.Contains(err.Error(), "redisstore: "), strings.Contains(err.Error(), "memcachestore: "):
		return 503 // who asks a store by himself hears what it says
	}
	return 500
}
