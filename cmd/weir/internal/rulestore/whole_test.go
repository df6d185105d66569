package rulestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestGone holds those who go away while the store reads or writes for them to leave nothing
// behind: what is read next is what was written last.
func TestGone(t *testing.T) {
	for what, ask := range map[string]func(*Store, context.Context){
		"Revision":  func(s *Store, ctx context.Context) { _, _ = s.Revision(ctx) },
		"Published": func(s *Store, ctx context.Context) { _, _ = s.Published(ctx, 0) },
		"Document":  func(s *Store, ctx context.Context) { _, _ = s.Document(ctx, "shop") },
		"CreateDomain": func(s *Store, ctx context.Context) {
			_, _ = s.CreateDomain(ctx, root(), NewDomain{Name: fmt.Sprint("gone", rand.Uint64()), Team: "shop"}, "gone")
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := shop(t, t.TempDir())
			for i := range 30 {
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(250))*time.Microsecond)
					ask(s, ctx)
					cancel()
				}
				if _, err := s.CreateDomain(t.Context(), root(), NewDomain{Name: fmt.Sprint("d", i), Team: "shop"}, "x"); err != nil {
					t.Fatal(err)
				}
				written, err := revisionOf(t.Context(), s.write)
				if err != nil {
					t.Fatal(err)
				}
				for range maxReaders {
					if read, err := s.Revision(t.Context()); err != nil || read != written {
						t.Fatalf("after %d rounds revision %d is read, %v; %d is written", i, read, err, written)
					}
				}
			}
		})
	}
}
