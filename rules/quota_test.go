package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// TestQuotaDivides: what proxies and other callers have of a limit is together the limit.
func TestQuotaDivides(t *testing.T) {
	for _, limit := range []string{"1000/s burst 1000", "100/s strict burst 10", "333/s burst 7", "100/s fixed-window", "600/min sliding-window 6", "7/s token-bucket burst 100"} {
		for _, percent := range []int64{50, 80, 99, 100} {
			set, err := rules.Parse("f", fmt.Appendf(nil, "domain: d\ndescriptors: [{key: a, limits: [%s], quota: %d%%}]", limit, percent))
			if err != nil {
				if !strings.Contains(err.Error(), "quota: ") {
					t.Error(err)
				}
				continue
			}
			r := set.Rules()[0]
			if r.Written().String() != r.Whole.String() || r.Quota == nil {
				t.Fatalf("%s: %v", limit, r)
			}
			whole, part, rest := r.Whole.Spec(), r.Quota.Spec(), r.Limit.Spec()
			if part.Count+rest.Count != whole.Count || whole.Burst > 0 && part.Burst+rest.Burst > whole.Burst || part.Period != whole.Period || rest.Period != whole.Period {
				t.Errorf("%d%% of %s is %s and %s", percent, limit, r.Quota, r.Limit)
			}
			if bound := r.Quota.Bound(whole.Period, 1) + r.Limit.Bound(whole.Period, 1); bound > r.Whole.Bound(whole.Period, 1) && whole.Mode != weir.Strict {
				t.Errorf("%d%% of %s: %d may pass in place of %d", percent, limit, bound, r.Whole.Bound(whole.Period, 1))
			}
		}
	}
}

// TestQuotaOf: how proxies get portions of each kind of limit, and what is said where they don't.
func TestQuotaOf(t *testing.T) {
	for limit, want := range map[string]rules.Quota{
		"100/s burst 100": rules.QuotaBooked, "60/min": rules.QuotaBooked, "59/min": rules.QuotaPrepaid, "5/h": rules.QuotaPrepaid,
		"10/s fixed-window": rules.QuotaBooked, "10/min fixed-window": rules.QuotaPrepaid, "100/month fixed-window": rules.QuotaPrepaid,
		"100/h fixed-window anchored": rules.QuotaNone, "100/s sliding-window": rules.QuotaBooked, "5/min sliding-window": rules.QuotaNone,
		"10 concurrent": rules.QuotaNone, "10/s leaky-queue": rules.QuotaNone, "10/s debt 5": rules.QuotaNone, "10/s fixed-window count-denied": rules.QuotaNone,
	} {
		l, err := weir.ParseLimit(limit)
		if err != nil {
			t.Fatal(err)
		}
		way, why := rules.QuotaOf(l)
		if way != want || (why == "") != (want != rules.QuotaNone) {
			t.Errorf("%s: %v, %q", limit, way, why)
		}
	}
}

// TestQuotaErrors: what can't be divided is refused, with what to write instead.
func TestQuotaErrors(t *testing.T) {
	for text, want := range map[string]string{
		"limits: [10/s], quota: 0%":                        "is not 1%…100%",
		"limits: [10/s], quota: 80":                        "is not 1%…100%",
		"limits: [10/s], quota: 101%":                      "is not 1%…100%",
		"limits: [10/s], quota: []":                        "quota is the part of a limit",
		"limits: [10 concurrent], quota: 50%":              "no bucket of tokens does the same",
		"limits: [10/s burst 2], quota: 50%":               "proxies need 2 at least",
		"limits: [10/s burst 100], quota: 5%":              "less than one event a second",
		"limits: [10/s], quota: 50%, charge: after":        "before the work",
		"limits: [\"10/s debt 3\"], quota: 50%":            "debt",
		"limits: [\"10/s burst 2\"], quota: 99%, lease: 0": "",
	} {
		_, err := rules.Parse("f", []byte("domain: d\ndescriptors: [{key: a, "+text+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	set, err := rules.Parse("f", []byte("domain: d\ndescriptors: [{key: a, limits: [1000/day], quota: 50%}]"))
	if err != nil || len(set.Warnings()) == 0 || set.Rules()[0].Quota != nil {
		t.Error(err, set.Warnings())
	}
}
