package main

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSubjects: all that is compared passes requests and tells of the limit.
func TestSubjects(t *testing.T) {
	all, err := subjects()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		r := requests(s.peer)
		for range 3 {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r[7])
			told := 0
			for name := range w.Header() {
				if strings.Contains(strings.ToLower(name), "ratelimit") {
					told++
				}
			}
			if w.Code != 200 || (told > 0) == (i == 0 || s.name == "`httplimit`, no fields") {
				t.Errorf("%s: %d %v", s.name, w.Code, w.Header())
			}
		}
	}
}

func TestReport(t *testing.T) {
	all := []subject{{name: "alone"}, {name: "weir", target: true}, {name: httprateName}}
	by := map[string]*costs{
		"alone":      {nanoseconds: []float64{10, 10}, allocs: []float64{0, 0}},
		"weir":       {nanoseconds: []float64{310, 320}, allocs: []float64{1, 1}},
		httprateName: {nanoseconds: []float64{800, 900}, allocs: []float64{9, 9}},
	}
	for _, want := range []string{"pass", "MISS"} {
		if row := report(all, by).Rows[0]; row.Verdict != want {
			t.Errorf("%+v, want %s", row, want)
		}
		by["weir"].allocs = []float64{3, 3}
	}
}
