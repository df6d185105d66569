// Package grpclimit limits gRPC calls: by interceptors of a server, and of a
// client that keeps to the limits of others.
//
// # A server
//
// NewServer makes interceptors that hold calls to rules, whose counts live in a
// store:
//
//	limits, err := grpclimit.NewServer(memstore.New(memstore.Options{}), []grpclimit.Rule{
//		{Name: "calls", Limit: weir.MustParseLimit("100/s burst 200"), Key: grpclimit.Peer},
//		{Name: "streams", Limit: weir.MustParseLimit("10 concurrent"), Key: grpclimit.Metadata("x-api-key")},
//	}, grpclimit.Options{Skip: grpclimit.HealthOrReflection})
//	if err != nil {
//		return err
//	}
//	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary), grpc.StreamInterceptor(limits.Stream))
//
// All rules decide together: a call is charged by all, or is denied and charged by
// none. A stream is one call, and holds its permits until it ends; a rule with
// Messages counts the messages that a client sends instead. NewServerFromRules asks
// the rules of a file.
//
// Interceptors run after those before them in grpc.ChainUnaryInterceptor: put
// authentication before, so that a Key can rely on it.
//
// # What clients get
//
// RESOURCE_EXHAUSTED, with details that programs read: RetryInfo says when to come
// back, QuotaFailure which limits deny, ErrorInfo why in a word. The trailer
// grpc-retry-pushback-ms says the same to the retry policy of gRPC itself, with
// some jitter, or -1 when the call can never pass. That policy obeys if it lists
// RESOURCE_EXHAUSTED:
//
//	{"methodConfig": [{"name": [{}], "retryPolicy": {
//		"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "5s", "backoffMultiplier": 2,
//		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}
//
// # A client
//
// NewClient makes interceptors that wait for a limit of the client's own, hold
// calls back for as long as a server has asked for, and send again what it refused,
// with a bounded queue, priorities and a budget. It is for servers that say when to
// come back; use it or a retry policy, not both.
//
// # The code
//
// server.go is a call's way, decide.go asks rules, permits.go keeps what a call holds,
// denial.go tells its client; client.go and stream.go are the other side.
package grpclimit
