package grpclimit_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/grpclimit"
	"github.com/weir-limit/weir/memstore"
)

// TestShortPermits: a permit whose time is short is renewed before the call that
// holds it is noted; make race sees it.
func TestShortPermits(t *testing.T) {
	s, err := grpclimit.NewServer(memstore.New(memstore.Options{}), []grpclimit.Rule{
		{Name: "calls", Limit: weir.MustParseLimit("1000000 concurrent ttl 1us")},
	}, grpclimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	called := 0
	for range 1000 {
		handler := func(context.Context, any) (any, error) { called++; return nil, nil }
		if _, err := s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"}, handler); err != nil {
			t.Fatal(err)
		}
	}
	if called != 1000 {
		t.Error(called)
	}
}
