// The store in Redis: a module of its own, for it brings a client of Redis.
module github.com/weir-limit/weir/redisstore

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/weir-limit/weir v0.0.0
	pgregory.net/rapid v1.3.0
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
