package httpapi

import (
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

func newTestReceipts(t testing.TB) *receipts {
	t.Helper()
	r, err := newReceipts(func(*weir.Receipt) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// charged is an answer whose decisions hold receipts; two of them share one.
func charged() *rules.Answer {
	rule := func(text string) *rules.Rule { return &rules.Rule{Limit: weir.MustParseLimit(text)} }
	receipt := func(key, limit string, cost int64) *weir.Receipt {
		return &weir.Receipt{
			ID: math.MaxUint64, State: weir.StateKey{Rule: "r/" + key, Key: key}, Limit: weir.MustParseLimit(limit), Cost: cost,
			Taken: 1_700_000_000_000_000, Expires: 1 << 52, Mark: [2]uint64{1, math.MaxUint64},
		}
	}
	shared := receipt("a", "5/s burst 10", 3)
	decide := func(i int, text string, r *weir.Receipt) rules.Decision {
		return rules.Decision{Descriptor: i, Rule: rule(text), Decision: weir.Decision{Charged: r != nil, Receipt: r}}
	}
	return &rules.Answer{Allowed: true, Decisions: []rules.Decision{
		decide(0, "5/s burst 10", shared),
		decide(1, "5/s", nil),
		decide(2, "5/s burst 10", shared),
		decide(99, "1000/day fixed-window zone Europe/Berlin", receipt("\x00\xff", "1000/day fixed-window zone Europe/Berlin", weir.MaxCount)),
	}}
}

func compareLimits(a, b *weir.Limit) bool { return a.String() == b.String() }

func TestReceipt(t *testing.T) {
	a, r := charged(), newTestReceipts(t)
	text, err := r.seal(a, 100)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%q is not base64url", text)
	}
	got, descriptors, err := r.open(text)
	if err != nil {
		t.Fatal(err)
	}
	if descriptors != 100 {
		t.Errorf("%d descriptors", descriptors)
	}
	want := []charge{{[]int{0, 2}, a.Decisions[0].Receipt}, {[]int{99}, a.Decisions[3].Receipt}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(charge{}), cmp.Comparer(compareLimits)); diff != "" {
		t.Error(diff)
	}
	if n := got[0].used(func(i int) int64 { return int64(i) + 10 }); n != 22 {
		t.Errorf("descriptors 0 and 2 used %d together", n)
	}
	if again, _ := r.seal(a, 100); again == text {
		t.Error("two receipts are the same: a nonce was used twice")
	}
}

func TestNothingCharged(t *testing.T) {
	if text, err := newTestReceipts(t).seal(&rules.Answer{}, 1); text != "" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

// TestForgedReceipt: "400 not one of ours".
func TestForgedReceipt(t *testing.T) {
	r := newTestReceipts(t)
	text, err := r.seal(charged(), 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := newTestReceipts(t).open(text); !errors.Is(err, errNotOurs) {
		t.Errorf("another process takes it: %v", err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if _, _, err := r.open(base64.RawURLEncoding.EncodeToString(raw)); !errors.Is(err, errNotOurs) {
			t.Fatalf("with bit %d changed: %v", bit, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for _, bad := range []string{
		"", "A", "AQ", text[:len(text)-1], text + "A", text + "=", text + "\n", " " + text,
		base64.RawURLEncoding.EncodeToString(raw[:receiptHeader]), strings.Repeat("A", 1<<20),
	} {
		if _, _, err := r.open(bad); !errors.Is(err, errNotOurs) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

// TestSharedSecret: processes with a secret in common open each other's receipts, while
// secrets change as those of a cluster do, but not those of counts that others don't have.
func TestSharedSecret(t *testing.T) {
	secrets := [][]byte{[]byte(strings.Repeat("1", 32)), []byte(strings.Repeat("2", 16))}
	bound := func(r *weir.Receipt) bool { return r.State.Rule == "mesh" }
	var of [2]*receipts
	for i := range of {
		r, err := newReceipts(bound)
		if err != nil {
			t.Fatal(err)
		}
		of[i] = r
	}
	rekey := func(r *receipts, secrets ...[]byte) {
		t.Helper()
		if err := r.rekey(secrets); err != nil {
			t.Fatal(err)
		}
	}
	sealed := func(r *receipts, rule string) string {
		t.Helper()
		a := charged()
		a.Decisions[3].Receipt.State.Rule = rule
		text, err := r.seal(a, 100)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	rekey(of[0], secrets[0])
	rekey(of[1], secrets[0])
	first := sealed(of[0], "lease")
	for _, step := range []func(){
		func() {},
		func() { rekey(of[0], secrets[0], secrets[1]) },
		func() { rekey(of[1], secrets[0], secrets[1]) },
		func() { rekey(of[1], secrets[1], secrets[0]) },
		func() { rekey(of[0], secrets[1], secrets[0]) },
	} {
		step()
		for i, r := range of {
			other := of[1-i]
			for _, text := range []string{first, sealed(r, "lease")} {
				if charges, _, err := other.open(text); err != nil || len(charges) != 2 {
					t.Errorf("of %d: %v, %v", i, charges, err)
				}
			}
			alone := sealed(r, "mesh")
			if _, _, err := r.open(alone); err != nil {
				t.Errorf("of %d, which gave it: %v", i, err)
			}
			if _, _, err := other.open(alone); !errors.Is(err, errElsewhere) {
				t.Errorf("of %d, which alone knows of it: %v", i, err)
			}
		}
	}
	rekey(of[1], secrets[1])
	if _, _, err := of[1].open(first); !errors.Is(err, errNotOurs) {
		t.Errorf("sealed with what was taken out: %v", err)
	}
}

// TestHugeReceipt: what can't be settled over the wire is not charged.
func TestHugeReceipt(t *testing.T) {
	// No rule has such a name; a request of 100 descriptors would need 5 KiB each.
	a := charged()
	a.Decisions[0].Receipt.State.Rule = strings.Repeat("r", maxReceipt)
	if _, err := newTestReceipts(t).seal(a, 100); !errors.Is(err, errReceiptSize) {
		t.Error(err)
	}
	limiter := &fakeLimiter{answer: a}
	door, err := New(limiter, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := ask(t, door, "/v1/check", check(`}],"receipt":true}`))
	if w.Code != http.StatusRequestEntityTooLarge || len(limiter.settled) != 2 {
		t.Errorf("status %d, %d receipts given back: %s", w.Code, len(limiter.settled), w.Body)
	}
}

// FuzzReceipt: what comes out of a receipt's bytes goes in again, and bytes
// that nobody wrote are refused.
func FuzzReceipt(f *testing.F) {
	f.Add(appendCharges(nil, chargesOf(charged()), 100))
	f.Add([]byte("12345678\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		charges, descriptors, err := readCharges(b)
		if err != nil {
			return
		}
		again, n, err := readCharges(appendCharges(nil, charges, descriptors))
		if err != nil || n != descriptors {
			t.Fatal(n, descriptors, err)
		}
		if diff := cmp.Diff(charges, again, cmp.AllowUnexported(charge{}), cmp.Comparer(compareLimits)); diff != "" {
			t.Fatal(diff)
		}
	})
}
