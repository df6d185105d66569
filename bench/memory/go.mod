// Weir's memory store beside other Go limiters: a module of its own, for they are many.
module github.com/weir-limit/weir/bench/memory

go 1.26.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/go-chi/httprate v0.16.1
	github.com/juju/ratelimit v1.0.2
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/sethvargo/go-limiter v0.7.1
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
	github.com/weir-limit/weir v0.0.0
	go.uber.org/ratelimit v0.3.1
	golang.org/x/sys v0.49.0
	golang.org/x/time v0.16.0
)

require (
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/weir-limit/weir/bench v0.0.0
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)

replace github.com/weir-limit/weir => ../..

replace github.com/weir-limit/weir/bench => ..

replace github.com/weir-limit/weir/redisstore => ../../redisstore
