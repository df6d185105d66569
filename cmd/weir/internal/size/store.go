package size

// Store is where counts are kept.
type Store string

// The stores that can be sized.
const (
	Memory    Store = "memory"
	Redis     Store = "redis"
	Cluster   Store = "redis+cluster"
	Memcached Store = "memcached"
	Postgres  Store = "postgres"
	NATS      Store = "nats"
)
