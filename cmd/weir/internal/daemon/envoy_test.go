package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/transcripttest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/envoy; read the diff")

// TestEnvoy replays testdata/envoy/*.txt through the gRPC listener, and again
// through POST /json, which must say the same. Time begins at
// 2000-01-01T00:00:00Z. Paragraphs are one of
//
//	rules [echo]     and a rule file: a new daemon, with --dynamic-metadata
//	wait 10s         the time goes on
//	ask DOMAIN [hits=N]: KEY=VALUE … [hits=N] [limit=N/UNIT] | KEY=VALUE …
//
// and what came of it below ----: what was found in the rules; of a request the
// overall code and the status of each descriptor, or the codes of both listeners and
// the reason. %XX stands for a byte, and lines that begin with # are comments.
func TestEnvoy(t *testing.T) {
	transcripttest.Run(t, "testdata/envoy/*.txt", *update, replayEnvoy)
}

// envoyDoors is one daemon behind gRPC, and its twin behind /json.
type envoyDoors struct {
	grpc rlsv3.RateLimitServiceClient
	http http.Handler
	stop func()
}

func replayEnvoy(t *testing.T, text string) string {
	var d envoyDoors
	said := transcripttest.Answer(text, func(lines []string) (said string) {
		switch verb, rest, _ := strings.Cut(lines[0], " "); verb {
		case "rules":
			if d.stop != nil {
				d.stop()
			}
			d, said = openEnvoy(t, strings.Join(lines[1:], "\n")+"\n", rest == "echo")
		case "wait":
			pause, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
		case "ask":
			for i, line := range lines {
				if i > 0 {
					said += "\n"
				}
				said += d.ask(t, strings.TrimPrefix(line, "ask "))
			}
		default:
			t.Fatalf("%q is no paragraph", lines)
		}
		return said
	})
	if d.stop != nil {
		d.stop()
	}
	return said
}

func openEnvoy(t *testing.T, text string, echo bool) (d envoyDoors, said string) {
	limiter := func() *telemetry.Meter {
		m := telemetry.NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), telemetry.NewDecisions())
		if text == "\n" {
			return m // before there are rules
		}
		set, err := rules.Parse("rules.yaml", []byte(text))
		if bad, ok := errors.AsType[*rules.Error](err); ok {
			said = "refused\n" + printed(bad.Findings)
			return m
		}
		said = printed(set.Warnings())
		m.Replace(set)
		return m
	}
	api, err := httpapi.New(limiter(), httpapi.Options{Answers: envoy.Options{Echo: echo}})
	if err != nil {
		t.Fatal(err)
	}
	door := rls.New(limiter(), rls.Options{Answers: envoy.Options{Echo: echo}})
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- door.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return envoyDoors{rlsv3.NewRateLimitServiceClient(conn), api, func() {
		if err := errors.Join(conn.Close(), door.Stop(t.Context()), <-served); err != nil {
			t.Error(err)
		}
	}}, strings.TrimSuffix(said, "\n")
}

func printed(findings []rules.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

func (d *envoyDoors) ask(t *testing.T, asked string) string {
	q := envoyRequest(t, asked)
	response, err := d.grpc.ShouldRateLimit(t.Context(), q)
	body, e := protojson.Marshal(q)
	if e != nil {
		t.Fatal(e)
	}
	w := httptest.NewRecorder()
	d.http.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", bytes.NewReader(body)))
	if err != nil {
		var problem struct{ Detail string }
		if e := json.Unmarshal(w.Body.Bytes(), &problem); e != nil {
			t.Fatalf("%s: gRPC %v, /json %d %s", asked, err, w.Code, w.Body)
		}
		s := status.Convert(err)
		text := s.Message()
		if problem.Detail != text {
			text += " / " + problem.Detail
		}
		return fmt.Sprintf("%s %d: %s", s.Code(), w.Code, text)
	}
	twin := new(rlsv3.RateLimitResponse)
	if e := protojson.Unmarshal(w.Body.Bytes(), twin); e != nil {
		t.Fatalf("%s: %v in %s", asked, e, w.Body)
	}
	if want := map[rlsv3.RateLimitResponse_Code]int{rlsv3.RateLimitResponse_OK: 200, rlsv3.RateLimitResponse_OVER_LIMIT: 429}; w.Code != want[response.OverallCode] {
		t.Errorf("%s: %v as %d", asked, response.OverallCode, w.Code)
	}
	said := describeEnvoy(t, response)
	if other := describeEnvoy(t, twin); said != other {
		t.Errorf("%s: gRPC says\n%s\nand /json\n%s", asked, said, other)
	}
	return said
}

func describeEnvoy(t *testing.T, r *rlsv3.RateLimitResponse) string {
	lines := []string{r.OverallCode.String()}
	for _, s := range r.Statuses {
		line := "  " + s.Code.String()
		if l := s.CurrentLimit; l != nil {
			line += fmt.Sprintf(" of %d/%v %q", l.RequestsPerUnit, l.Unit, l.Name)
		}
		line += fmt.Sprintf(" left %d", s.LimitRemaining)
		if s.DurationUntilReset != nil {
			line += fmt.Sprintf(" until %v", s.DurationUntilReset.AsDuration())
		}
		lines = append(lines, line)
	}
	if r.DynamicMetadata != nil {
		text, err := json.Marshal(r.DynamicMetadata.AsMap())
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "  metadata "+string(text))
	}
	return strings.Join(lines, "\n")
}

var envoyOption = regexp.MustCompile(`^(hits|limit)=(.*)$`)

// envoyRequest reads DOMAIN [hits=N]: DESCRIPTOR | DESCRIPTOR….
func envoyRequest(t *testing.T, text string) *rlsv3.RateLimitRequest {
	t.Helper()
	head, rest, _ := strings.Cut(text+" ", ": ")
	domain, hits, _ := strings.Cut(head, " hits=")
	q := &rlsv3.RateLimitRequest{Domain: unescape(t, domain), HitsAddend: uint32(number(t, hits, 32))}
	if rest = strings.TrimSpace(rest); rest == "" {
		return q
	}
	for part := range strings.SplitSeq(rest, "|") {
		d := new(ratelimit.RateLimitDescriptor)
		for word := range strings.FieldsSeq(part) {
			if m := envoyOption.FindStringSubmatch(word); m == nil {
				key, value, _ := strings.Cut(word, "=")
				d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: unescape(t, key), Value: unescape(t, value)})
			} else if m[1] == "hits" {
				d.HitsAddend = wrapperspb.UInt64(number(t, m[2], 64))
			} else {
				count, unit, _ := strings.Cut(m[2], "/")
				d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: uint32(number(t, count, 32)), Unit: envoytype.RateLimitUnit(envoytype.RateLimitUnit_value[unit]),
				}
			}
		}
		q.Descriptors = append(q.Descriptors, d)
	}
	return q
}

func number(t *testing.T, text string, bits int) uint64 {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func unescape(t *testing.T, text string) string {
	t.Helper()
	plain, err := url.PathUnescape(text)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestEnvoyPage: the queries in docs/envoy.md speak of metrics and labels that
// there are.
func TestEnvoyPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Rules: rulesFile(t, "domain: d\ndescriptors:\n  - {key: k, value_to_metric: true, limits: [1/day]}\n")})
	asked := &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}}}
	door := rlsv3.NewRateLimitServiceClient(client(t, r.grpc))
	if _, err := door.ShouldRateLimit(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	_, told := get(t, "http://"+r.admin+"/metrics")
	series := regexp.MustCompile(`(?m)^([a-z_]+)(\{.*\})? `).FindAllStringSubmatch(told, -1)
	checked := 0
	for _, m := range regexp.MustCompile(`[^.\w]((?:weir|go)_[a-z_]+)(\{[^}]*\})?`).FindAllSubmatch(page, -1) {
		name, matchers := string(m[1]), regexp.MustCompile(`[a-z]+!?="[^"]*"`).FindAllString(string(m[2]), -1)
		found := false
		for _, s := range series {
			found = found || s[1] == name && hasLabels(s[2], matchers)
		}
		if checked++; !found {
			t.Errorf("%s: there is no such series", m[0])
		}
	}
	if checked < 15 {
		t.Errorf("checked %d", checked)
	}
}

// hasLabels is whether a series may have the labels of a query; what errors are
// there, and which rules are in shadow, is not known here.
func hasLabels(series string, matchers []string) bool {
	for _, m := range matchers {
		name, value, _ := strings.Cut(strings.ReplaceAll(m, "!=", "="), "=")
		if !strings.Contains(series, name+"=") {
			return false
		}
		if name == "listener" && !strings.Contains(series, name+"="+value) {
			return false
		}
	}
	return true
}
