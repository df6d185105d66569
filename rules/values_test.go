package rules_test

import (
	"strings"
	"testing"

	"github.com/weir-limit/weir/rules"
)

// TestValues: which values of a request the metrics of a rule tell apart.
func TestValues(t *testing.T) {
	set, err := rules.Parse("rules.yaml", []byte(`domain: shop
descriptors:
  - {key: none, limits: [1/s]}
  - {key: bare, value_to_metric: true, limits: [1/s]}
  - {key: bare, value: ann, value_to_metric: true, detailed_metric: true, limits: [1/s]}
  - {key: path, value: /a/*, value_to_metric: true, limits: [1/s]}
  - {key: path, value: /b/*, value_to_metric: true, share_threshold: true, limits: [1/s]}
  - {key: path, value: /c/*, detailed_metric: true, share_threshold: true, limits: [1/s]}
  - {key: x-*, detailed_metric: true, limits: [1/s]}
  - key: tenant
    value_to_metric: true
    descriptors:
      - {key: user, limits: [1/s]}
      - {key: plan, value: gold, limits: [1/s]}
  - key: team
    descriptors:
      - {key: user, limits: [1/s, 9/min], detailed_metric: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		"none=v":                    "",
		"bare=bob":                  "bare=bob",
		"bare=":                     "bare=",
		"bare=ann":                  "",
		"path=/a/b c":               "path=%2Fa%2Fb%20c",
		"path=/b/1":                 "",
		"path=/c/1":                 "",
		"x-y=z\xff":                 "x-y=z%FF",
		"tenant=t=1,user=u":         "tenant=t%3D1",
		"tenant=t,plan=gold":        "tenant=t",
		"team=red,user=ann/team=is": "team=red/user=ann%2Fteam%3Dis",
	} {
		var d rules.Descriptor
		for e := range strings.SplitSeq(request, ",") {
			key, value, _ := strings.Cut(e, "=")
			d.Entries = append(d.Entries, rules.Entry{Key: key, Value: value})
		}
		found, _ := set.Match("shop", &d)
		if len(found) == 0 {
			t.Errorf("%s meets no rule", request)
		}
		for _, r := range found {
			if got := string(r.AppendValues(nil, d.Entries)); got != want || r.CountsValues() != (want != "") {
				t.Errorf("%s: %q, %v, want %q", request, got, r.CountsValues(), want)
			}
		}
	}
}
