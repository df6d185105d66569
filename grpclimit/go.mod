// Interceptors for gRPC: a module of their own, for they bring gRPC.
module github.com/weir-limit/weir/grpclimit

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/weir-limit/weir v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	pgregory.net/rapid v1.3.0
)

require (
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
