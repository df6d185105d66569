package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metrics is what the admin listener tells.
func (d *daemon) metrics(t *testing.T) string {
	t.Helper()
	scheme := "http"
	if slices.Contains(d.Args, "--tls-cert") {
		scheme = "https"
	}
	a := newClient(t).ask(http.MethodGet, scheme+"://"+d.admin+"/metrics", "")
	if a.status != http.StatusOK {
		t.Fatalf("metrics: %v", a)
	}
	return a.body
}

// metric is the value of one sample, by its name with labels.
func (d *daemon) metric(t *testing.T, sample string) float64 {
	t.Helper()
	for line := range strings.Lines(d.metrics(t)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), sample+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no sample %s", sample)
	return 0
}

// says is whether the daemon's log has a message.
func (d *daemon) says(message string) bool {
	return strings.Contains(d.output.String(), "msg="+message)
}
