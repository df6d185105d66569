package httpapi

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/transcripttest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata; read the diff")

// TestTranscripts replays testdata/*.txt: what is asked, ----, and the whole
// answer, with fields sorted by name. Paragraphs are one of
//
//	rules        and a rule file: a new daemon
//	wait 10s     the time of the transcript goes on
//	METHOD /path and a body, of GET fields; admin:/path is on the admin listener
//
// IDs are written as ID, and receipts as RECEIPT1, RECEIPT2 … in the order in
// which they are given; bodies can send them back so. Likewise DENIAL1 … are the
// ids of denials, for paths. A # in front is a comment.
func TestTranscripts(t *testing.T) {
	transcripttest.Run(t, "testdata/*.txt", *update, func(t *testing.T, text string) string {
		tr := &transcript{t: t}
		return transcripttest.Answer(text, func(lines []string) string {
			return tr.do(strings.TrimSpace(lines[0]), strings.Join(lines[1:], "\n"))
		})
	})
}

// transcript is a daemon's listener, and what was learned from it.
type transcript struct {
	t        *testing.T
	door     *API
	admin    http.Handler
	receipts []string
	denials  []string
}

func (tr *transcript) do(command, body string) string {
	verb, rest, _ := strings.Cut(command, " ")
	switch verb {
	case "rules":
		tr.door = newDoor(tr.t, body, Options{})
		limiter := tr.door.limiter.(*rules.Limiter)
		if err := limiter.Remember(rules.NewDenials()); err != nil {
			tr.t.Fatal(err)
		}
		tr.admin = NewAdmin(limiter, Options{})
		return ""
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			tr.t.Fatal(err)
		}
		time.Sleep(d)
		return ""
	}
	for i, r := range tr.receipts {
		body = strings.ReplaceAll(body, fmt.Sprintf("RECEIPT%d", i+1), r)
	}
	for i, id := range tr.denials {
		rest = strings.ReplaceAll(rest, fmt.Sprintf("DENIAL%d", i+1), id)
	}
	w := httptest.NewRecorder()
	door := http.Handler(tr.door)
	if path, ok := strings.CutPrefix(rest, "admin:"); ok {
		door, rest = tr.admin, path
	}
	r := httptest.NewRequestWithContext(tr.t.Context(), verb, rest, strings.NewReader(body))
	if verb == http.MethodGet {
		r.Body = http.NoBody
		for field := range strings.Lines(body) {
			name, value, _ := strings.Cut(strings.TrimSpace(field), ":")
			r.Header.Add(name, strings.TrimSpace(value))
		}
	}
	door.ServeHTTP(w, r)
	return tr.print(w)
}

var (
	idMember      = regexp.MustCompile(`("id":"|"Weir-Denial","value":")[0-9a-f]{16}"`)
	receiptMember = regexp.MustCompile(`"receipt":"([^"]+)"`)
)

func (tr *transcript) print(w *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", w.Code, http.StatusText(w.Code))
	for _, name := range slices.Sorted(maps.Keys(w.Header())) {
		value := strings.Join(w.Header()[name], ", ")
		if name == envoy.DenialHeader {
			tr.denials = append(tr.denials, value)
			value = fmt.Sprintf("DENIAL%d", len(tr.denials))
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	body := idMember.ReplaceAllString(w.Body.String(), `${1}ID"`)
	if m := receiptMember.FindStringSubmatch(body); m != nil {
		tr.receipts = append(tr.receipts, m[1])
		body = strings.ReplaceAll(body, m[1], fmt.Sprintf("RECEIPT%d", len(tr.receipts)))
	}
	b.WriteString(strings.TrimSuffix(body, "\n"))
	return strings.TrimSuffix(b.String(), "\n")
}

// newDoor is a listener to the rules of a file, none of which was used.
func newDoor(t testing.TB, ruleFile string, o Options) *API {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	door, err := New(rules.NewLimiter(memstore.New(memstore.Options{}), set), o)
	if err != nil {
		t.Fatal(err)
	}
	return door
}
