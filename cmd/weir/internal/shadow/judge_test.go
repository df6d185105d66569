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
		return &Report{Key: Key{Domain: "shop"}, Since: at.Add(-time.Hour), At: at, Period: time.Minute, Counts: c, Recent: recent, RecentSince: at.Add(-Recent)}
	}
	for _, c := range []struct {
		name    string
		report  *Report
		refused bool
		share   Share
		says    string
	}{
		{"nothing ran", nil, true, 0, "run it in shadow first"},
		{"no traffic", report(Counts{}, Counts{}), true, 0, "no request has met it on this node since 2026-11-22 11:00 UTC, and 100 are needed"},
		{"too little", report(Counts{BothPass: Enough - 1, Unknown: 5000}, Counts{}), true, 0, "only 99 requests have met it"},
		{"the same", report(Counts{BothPass: 60, BothDeny: 40}, Counts{}), false, 0, "0 % of the requests that met it on this node since 2026-11-22 11:00 UTC would be denied that pass now, and 1 % may be; 100 were compared"},
		{"looser", report(Counts{BothPass: 60, OnlyActive: 940}, Counts{}), false, 0, "0 %"},
		{"at the share", report(Counts{BothPass: 990, OnlyCandidate: 10}, Counts{}), false, 10_000, "1 %"},
		{"above it", report(Counts{BothPass: 1989, OnlyCandidate: 21}, Counts{}), true, 10_448, "1.0448 % of the requests"},
		{"lately above it", report(Counts{BothPass: 99_900, OnlyCandidate: 100}, Counts{BothPass: 100, OnlyCandidate: 100}), true, 500_000, "50 % of the requests that met it on this node since 11:50 UTC"},
		{"lately too little", report(Counts{BothPass: 99_900, OnlyCandidate: 100}, Counts{OnlyCandidate: 99}), false, 1000, "0.1 %"},
	} {
		v := Judge(c.report, UsualShare)
		if v.Refused != c.refused || v.Share != c.share || c.report != nil && v.Requests != c.report.Counts.Compared() || !strings.Contains(v.Why, c.says) {
			t.Errorf("%s: %+v", c.name, v)
		}
		if v.Refused && !strings.Contains(v.Why, "force it with a reason") {
			t.Errorf("%s: %q does not say what to do", c.name, v.Why)
		}
	}
	if v := Judge(&Report{Looser: true}, UsualShare); v.Refused || !strings.Contains(v.Why, "at least as loose") {
		t.Errorf("%+v", v)
	}
	young := report(Counts{BothPass: Enough}, Counts{})
	young.Period = 24 * time.Hour
	if v := Judge(young, UsualShare); v.Refused || !strings.Contains(v.Why, "less than 24h, the longest period") {
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
		v := Judge(&Report{Counts: counts}, most)
		part, all := new(big.Int).Mul(big.NewInt(counts.OnlyCandidate), big.NewInt(1_000_000)), big.NewInt(counts.Compared())
		if more := part.Cmp(new(big.Int).Mul(all, big.NewInt(int64(most)))) > 0; v.Refused != more {
			t.Fatalf("%+v of %v: %+v", counts, most, v)
		}
		if rest := new(big.Int).Sub(new(big.Int).Mul(all, big.NewInt(int64(v.Share))), part); rest.Sign() < 0 || rest.Cmp(all) >= 0 {
			t.Fatalf("%+v: share %d", counts, v.Share)
		}
	})
}
