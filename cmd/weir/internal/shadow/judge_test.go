package shadow

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	report := func(c, recent Counts) *Report {
		return &Report{Domain: "shop", Since: at.Add(-time.Hour), At: at, Period: time.Minute, Counts: c, Recent: recent, RecentSince: at.Add(-Recent)}
	}
	for _, c := range []struct {
		name    string
		report  *Report
		reason  string
		refused bool
		share   Share
		says    string
	}{
		{"nothing ran", nil, "", true, 0, "run it in shadow first"},
		{"nothing ran, forced", nil, "an attack", false, 0, "forced (an attack), though no candidate"},
		{"no traffic", report(Counts{}, Counts{}), "", true, 0, "only 0 requests were compared since 11:00 UTC"},
		{"too little", report(Counts{BothPass: Enough - 1, Unknown: 5000}, Counts{}), "", true, 0, "only 99 requests"},
		{"the same", report(Counts{BothPass: 60, BothDeny: 40}, Counts{}), "", false, 0, "0 % of the requests since 2026-11-22 11:00 UTC would be denied that pass now, and 1 % may be"},
		{"looser", report(Counts{BothPass: 60, OnlyActive: 940}, Counts{}), "", false, 0, "0 %"},
		{"at the share", report(Counts{BothPass: 990, OnlyCandidate: 10}, Counts{}), "", false, 10_000, "1 %"},
		{"above it", report(Counts{BothPass: 1989, OnlyCandidate: 21}, Counts{}), "", true, 10_448, "1.0448 % of the requests"},
		{"above it, forced", report(Counts{BothPass: 1989, OnlyCandidate: 21}, Counts{}), "they agreed", false, 10_448, "forced (they agreed), though 1.0448 %"},
		{"lately above it", report(Counts{BothPass: 99_900, OnlyCandidate: 100}, Counts{BothPass: 100, OnlyCandidate: 100}), "", true, 500_000, "50 % of the requests since 11:50 UTC"},
		{"lately too little", report(Counts{BothPass: 99_900, OnlyCandidate: 100}, Counts{OnlyCandidate: 99}), "", false, 1000, "0.1 %"},
	} {
		v := Judge(c.report, UsualShare, c.reason)
		if v.Refused != c.refused || v.Share != c.share || !strings.Contains(v.Why, c.says) {
			t.Errorf("%s: %+v", c.name, v)
		}
		if v.Refused && !strings.Contains(v.Why, "force it with a reason") {
			t.Errorf("%s: %q does not say what to do", c.name, v.Why)
		}
	}
	young := report(Counts{BothPass: Enough}, Counts{})
	young.Period = 24 * time.Hour
	if v := Judge(young, UsualShare, ""); v.Refused || !strings.Contains(v.Why, "less than 24h, the longest period") {
		t.Errorf("%+v", v)
	}
}

// TestShare: a verdict is exact, however much was compared: it refuses if, and
// only if, more is denied than may be.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := Counts{
			BothPass: rapid.Int64Range(Enough, 1<<50).Draw(t, "both pass"), BothDeny: rapid.Int64Range(0, 1<<50).Draw(t, "both deny"),
			OnlyCandidate: rapid.Int64Range(0, 1<<50).Draw(t, "candidate"), OnlyActive: rapid.Int64Range(0, 1<<50).Draw(t, "active"),
		}
		most := Share(rapid.Int64Range(0, 1_000_000).Draw(t, "most"))
		v := Judge(&Report{Counts: counts}, most, "")
		part, all := new(big.Int).Mul(big.NewInt(counts.OnlyCandidate), big.NewInt(1_000_000)), big.NewInt(counts.Compared())
		if more := part.Cmp(new(big.Int).Mul(all, big.NewInt(int64(most)))) > 0; v.Refused != more {
			t.Fatalf("%+v of %v: %+v", counts, most, v)
		}
		if rest := new(big.Int).Sub(new(big.Int).Mul(all, big.NewInt(int64(v.Share))), part); rest.Sign() < 0 || rest.Cmp(all) >= 0 {
			t.Fatalf("%+v: share %d", counts, v.Share)
		}
	})
}
