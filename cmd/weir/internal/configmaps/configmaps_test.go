package configmaps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-limit/weir/rules"
)

// plain is lint without a store.
func plain(set *rules.Set, err error) ([]rules.Finding, bool, error) {
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		return bad.Findings, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return set.Warnings(), true, nil
}

func ask(v *Reviewer, body, kind string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	q := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/review", strings.NewReader(body))
	q.Header.Set("Content-Type", kind)
	v.ServeHTTP(w, q)
	return w
}

// of is a review of a ConfigMap with one file.
func of(text string) string {
	b, err := json.Marshal(map[string]string{"edge.yaml": text})
	if err != nil {
		panic(err)
	}
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"kind":"ConfigMap"},"operation":"CREATE","object":{"data":` + string(b) + `}}}`
}

// TestNoReview: what is no review gets an error that says what to send, and is counted.
func TestNoReview(t *testing.T) {
	good := of("domain: edge\ndescriptors: []\n")
	v := NewReviewer(plain)
	for name, c := range map[string]struct {
		body, kind, says string
		code             int
	}{
		"a form":        {"a=b", "application/x-www-form-urlencoded", "application/json", 415},
		"no JSON":       {"{", "application/json", "no AdmissionReview", 400},
		"null":          {"null", "application/json", "admission.k8s.io/v1", 400},
		"an old one":    {strings.Replace(good, "/v1", "/v1beta1", 1), "application/json", "admissionReviewVersions: [v1]", 400},
		"another kind":  {strings.Replace(good, "AdmissionReview", "ConversionReview", 1), "application/json", "AdmissionReview", 400},
		"no request":    {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "application/json", "no request", 400},
		"no uid":        {strings.Replace(good, `"uid":"u"`, `"uid":""`, 1), "application/json", "uid", 400},
		"data of lists": {strings.Replace(good, `"data":{`, `"data":{"a":[],`, 1), "application/json", "no AdmissionReview", 400},
		"a long one":    {strings.Replace(good, "domain", strings.Repeat("x", MaxBody), 1), "application/json", fmt.Sprint(MaxBody), 413},
	} {
		w := ask(v, c.body, c.kind)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if n := v.Counts(); n["invalid"] != 9 || n["allowed"]+n["refused"]+n["busy"] != 0 {
		t.Errorf("%v", n)
	}
	if w := ask(v, good, "application/json; charset=utf-8"); w.Code != 200 || v.Counts()["allowed"] != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestIncomplete: what a daemon refuses when it reads its rules again is refused when it is to replace others.
func TestIncomplete(t *testing.T) {
	v := NewReviewer(plain)
	made := of("domain: edge\n")
	if w := ask(v, made, "application/json"); !strings.Contains(w.Body.String(), `"allowed":true`) {
		t.Errorf("made: %s", w.Body)
	}
	if w := ask(v, strings.Replace(made, "CREATE", "UPDATE", 1), "application/json"); !strings.Contains(w.Body.String(), `"allowed":false`) || !strings.Contains(w.Body.String(), "descriptors: []") {
		t.Errorf("changed: %s", w.Body)
	}
}

// TestBusy: more reviews at a time than there may be are answered at once, and counted.
func TestBusy(t *testing.T) {
	come, leave := make(chan struct{}), make(chan struct{})
	v := NewReviewer(func(*rules.Set, error) ([]rules.Finding, bool, error) {
		come <- struct{}{}
		<-leave
		return nil, true, nil
	})
	ended := make(chan int)
	for range MaxReviews {
		go func() { ended <- ask(v, of(""), "application/json").Code }()
	}
	for range MaxReviews {
		<-come
	}
	if w := ask(v, of(""), "application/json"); w.Code != 503 || v.Counts()["busy"] != 1 {
		t.Errorf("%d %s, %v", w.Code, w.Body, v.Counts())
	}
	close(leave)
	for range MaxReviews {
		if code := <-ended; code != 200 {
			t.Errorf("status %d", code)
		}
	}
	go func() { <-come }()
	if w := ask(v, of(""), "application/json"); w.Code != 200 {
		t.Errorf("no turn came back: %d %s", w.Code, w.Body)
	}
}

// TestManyWarnings: there are as many as Kubernetes has room for, cut between letters, and the last says how many more.
func TestManyWarnings(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("domain: edge\ndescriptors:\n")
	for i := range 40 {
		fmt.Fprintf(&text, "  - {key: k%d, name: %s, limits: [0/s]}\n", i, strings.Repeat("ä", 120+i))
	}
	w := ask(NewReviewer(plain), of(text.String()), "application/json")
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	all, cut := 0, 0
	for _, line := range a.Response.Warnings {
		if all += len(line); len(line) > 256 || !utf8.ValidString(line) {
			t.Errorf("%q", line)
		}
		if strings.HasSuffix(line, "…") {
			cut++
		}
	}
	if !a.Response.Allowed || len(a.Response.Warnings) != 16 || all > 4096 || cut == 0 || !strings.HasPrefix(a.Response.Warnings[15], "25 more") {
		t.Errorf("%d bytes, %d cut: %q", all, cut, a.Response.Warnings)
	}
}
