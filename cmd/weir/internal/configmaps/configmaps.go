// Package configmaps reviews ConfigMaps that hold rules: Kubernetes asks before it keeps one, and gives their
// author what weir lint finds.
//
// It reads and writes AdmissionReview of admission.k8s.io/v1. It knows the few members that it needs:
// Kubernetes adds members without notice, and the types of Kubernetes bring along all else that they stand on.
package configmaps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/rules"
)

const (
	// MaxBody is how long a review may be, in bytes: a ConfigMap has 1 MiB at most, and a review has the one before
	// it, too. Longer ones get 413.
	MaxBody = 8 << 20
	// MaxReviews is how many reviews are read at a time. More are answered 503: Kubernetes does then what its
	// failurePolicy says.
	MaxReviews = 16
	// maxWarnings is how many warnings an answer has, and maxWarning how long one is, in bytes. Kubernetes cuts off
	// what is longer, and has room for 4096 bytes. The last one counts those that are left out.
	maxWarnings, maxWarning = 15, 256
)

const version, kind = "admission.k8s.io/v1", "AdmissionReview"

// Result is how a review ended, for metrics.
type Result string

// The results.
const (
	Allowed Result = "allowed"
	Refused Result = "refused" // the rules have errors
	Invalid Result = "invalid" // it was no review
	Busy    Result = "busy"    // too many at a time
)

// Reviewer answers reviews. Make one with NewReviewer.
type Reviewer struct {
	lint   Lint
	turns  chan struct{}
	counts map[Result]*atomic.Int64
}

// Lint finds what is to be said of rules that were read, or were not, with err: all errors, and then they are not
// good, or the warnings. It fails when they could not be read at all.
type Lint func(set *rules.Set, err error) (findings []rules.Finding, good bool, _ error)

// NewReviewer makes a Reviewer. Many may ask it at the same time.
func NewReviewer(lint Lint) *Reviewer {
	v := &Reviewer{lint: lint, turns: make(chan struct{}, MaxReviews), counts: map[Result]*atomic.Int64{}}
	for _, r := range []Result{Allowed, Refused, Invalid, Busy} {
		v.counts[r] = new(atomic.Int64)
	}
	return v
}

// Counts is how many reviews ended how.
func (v *Reviewer) Counts() map[string]int64 {
	all := map[string]int64{}
	for r, n := range v.counts {
		all[string(r)] = n.Load()
	}
	return all
}

func (v *Reviewer) count(r Result) { v.counts[r].Add(1) }

// review is as much of an AdmissionReview as is asked.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID  string `json:"uid"`
		Kind struct {
			Kind string `json:"kind"`
		} `json:"kind"`
		Operation string `json:"operation"`
		Object    struct {
			Data       map[string]string `json:"data"`
			BinaryData map[string][]byte `json:"binaryData"`
		} `json:"object"`
	} `json:"request"`
}

// answer is an AdmissionReview as it is answered.
type answer struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Response   response `json:"response"`
}

type response struct {
	UID      string   `json:"uid"`
	Allowed  bool     `json:"allowed"`
	Status   *status  `json:"status,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// status is why an object was refused: its author sees the message.
type status struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
}

// ServeHTTP answers a review. It answers other status codes than 200 where nothing was reviewed.
func (v *Reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case v.turns <- struct{}{}:
		defer func() { <-v.turns }()
	default:
		v.count(Busy)
		http.Error(w, fmt.Sprintf("%d reviews are read already; ask again", MaxReviews), http.StatusServiceUnavailable)
		return
	}
	q, code, err := read(w, r)
	if err != nil {
		v.count(Invalid)
		http.Error(w, err.Error(), code)
		return
	}
	a := answer{version, kind, v.respond(q)}
	result := Allowed
	if !a.Response.Allowed {
		result = Refused
	}
	v.count(result)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the asker has gone away, and takes that for a failure
}

// read is the review that a request brings, or the code of what is wrong with it.
func read(w http.ResponseWriter, r *http.Request) (q *review, code int, _ error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("send an AdmissionReview as application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a review has at most %d bytes", MaxBody)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errors.New("the body did not come whole")
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("this is no AdmissionReview: %w", err)
	}
	switch {
	case q == nil || q.APIVersion != version || q.Kind != kind:
		return nil, http.StatusBadRequest, fmt.Errorf("send apiVersion %s and kind %s; set admissionReviewVersions: [v1] in the webhook's configuration", version, kind)
	case q.Request == nil || q.Request.UID == "":
		return nil, http.StatusBadRequest, errors.New("the review has no request with a uid")
	}
	return q, 0, nil
}

// respond says whether an object may be kept.
func (v *Reviewer) respond(q *review) response {
	a := response{UID: q.Request.UID, Allowed: true}
	switch {
	case q.Request.Operation == "DELETE":
		return a // what is gone has no rules; daemons that read them keep the old ones
	case q.Request.Kind.Kind != "ConfigMap":
		a.Warnings = []string{shorten(fmt.Sprintf("weir admission reads ConfigMaps alone, and did not look at this %s", q.Request.Kind.Kind))}
		return a
	}
	texts := q.Request.Object.BinaryData
	if texts == nil {
		texts = map[string][]byte{}
	}
	for name, text := range q.Request.Object.Data {
		texts[name] = []byte(text)
	}
	set, err := rules.ParseFolder(texts)
	if err == nil && q.Request.Operation == "UPDATE" {
		err = set.Complete() // or daemons that have rules of it would refuse it, and go on with the old ones
	}
	findings, good, err := v.lint(set, err)
	if err != nil {
		message := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			message = "this ConfigMap has no *.yaml or *.yml: give it rule files, or take off the label by which it is reviewed"
		}
		a.Allowed, a.Status = false, refusal(message)
		return a
	}
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = terminal.Escape(f.String())
	}
	if !good {
		a.Allowed, a.Status = false, refusal(strings.Join(lines, "\n"))
		return a
	}
	a.Warnings = bounded(lines)
	return a
}

func refusal(message string) *status {
	return &status{message, "Invalid", http.StatusUnprocessableEntity}
}

// bounded is as many warnings as Kubernetes has room for.
func bounded(lines []string) []string {
	if more := len(lines) - maxWarnings; more > 0 {
		lines = append(lines[:maxWarnings:maxWarnings], fmt.Sprintf("%d more warnings: weir lint shows all", more))
	}
	for i, line := range lines {
		lines[i] = shorten(line)
	}
	return lines
}

// shorten cuts a line where it is too long, between letters.
func shorten(line string) string {
	const cut = "…"
	if len(line) <= maxWarning {
		return line
	}
	end := maxWarning - len(cut)
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + cut
}
