package importenv

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// variable is one that envoyproxy/ratelimit reads. text says what becomes of it,
// unless a step of Translate has said so.
type variable struct {
	name string
	is   kind
	text string
	// idle are values that ask for nothing that weir does otherwise; "*" is any.
	idle string
}

// kind is what a variable's value must be.
type kind int

const (
	text kind = iota
	flag
	whole
	length
	real
)

// check finds values that ratelimit would not start with.
func (v variable) check(value string) error {
	var err error
	should := ""
	switch v.is {
	case flag:
		_, err = strconv.ParseBool(value)
		should = "true or false"
	case whole:
		_, err = strconv.ParseInt(value, 0, 64)
		should = "a whole number"
	case length:
		_, err = time.ParseDuration(value)
		should = "a time such as 10s"
	case real:
		_, err = strconv.ParseFloat(value, 64)
		should = "a number"
	case text:
	}
	if value == "" || err == nil {
		return nil
	}
	return &InputError{fmt.Sprintf("%s is %q; it must be %s, or ratelimit does not start", v.name, value, should)}
}

func truth(value string) bool {
	yes, err := strconv.ParseBool(value)
	return err == nil && yes
}

func (v variable) fate(value string) Fate {
	if v.idle == "*" || v.idle == value || v.is == flag && v.idle == strconv.FormatBool(truth(value)) {
		return NotNeeded
	}
	return Differs
}

// say is what to tell of it.
func (v variable) say(value string) string {
	if v.idle != "*" && v.fate(value) == NotNeeded {
		return "weir does so anyway"
	}
	return v.text
}

// variables are all of ratelimit's, in the order in which they are told.
func variables() []variable {
	const (
		inFlag   = "see the flags"
		noTuning = "weir has no such setting"
		metrics  = "weir has no statsd: let Prometheus fetch /metrics of the admin listener; docs/envoy.md has the names"
		scraped  = "metrics are fetched from the admin listener's /metrics, or not at all"
		tracing  = "traces are on when OTEL_EXPORTER_OTLP_ENDPOINT is set, and OTEL_ variables shape them"
		headers  = "weir adds no headers; let Envoy write them: enable_x_ratelimit_headers: DRAFT_VERSION_03, enable_retry_after_header: true"
		noXDS    = "weir asks no xDS server: write its rules to files, or let --rules URL follow the /v1/export of another weir"
		files    = "CONFIG_TYPE is FILE"
		redisTLS = "write the files behind the URL of --store: ?ca=FILE&cert=FILE&key=FILE"
		perTwo   = "REDIS_PERSECOND is false"
	)
	return []variable{
		{"RUNTIME_ROOT", text, inFlag, ""},
		{"RUNTIME_SUBDIRECTORY", text, inFlag, ""},
		{"RUNTIME_APPDIRECTORY", text, inFlag, ""},
		{"RUNTIME_WATCH_ROOT", flag, "weir sees files that change as well as links that are turned", "*"},
		{"RUNTIME_IGNOREDOTFILES", flag, "weir always skips names with a dot in front: rename the files that hold rules", "true"},
		{"MERGE_DOMAIN_CONFIG", flag, "a domain has one file: put all its descriptors into one; weir lint tells where a domain comes twice", "false"},
		{"CONFIG_TYPE", text, noXDS, "FILE"},
		{"CONFIG_GRPC_XDS_NODE_ID", text, files, "*"},
		{"CONFIG_GRPC_XDS_NODE_METADATA", text, files, "*"},
		{"CONFIG_GRPC_XDS_SERVER_URL", text, files, "*"},
		{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", length, files, "*"},
		{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", text, files, "*"},
		{"CONFIG_GRPC_XDS_SERVER_USE_TLS", flag, files, "*"},
		{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", text, files, "*"},
		{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", text, files, "*"},
		{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", text, files, "*"},
		{"CONFIG_GRPC_XDS_SERVER_TLS_SAN", text, files, "*"},
		{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", length, files, "*"},
		{"XDS_CLIENT_BACKOFF_MAX_INTERVAL", length, files, "*"},
		{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", real, files, "*"},
		{"XDS_CLIENT_BACKOFF_JITTER", flag, files, "*"},
		{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", whole, files, "*"},
		{"FORCE_START_WITHOUT_INITIAL_CONFIG", flag, "weir starts with rules or not at all", "false"},
		{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", flag, "weir starts with rules, and keeps the last good ones", "*"},

		{"HOST", text, inFlag, ""},
		{"PORT", whole, inFlag, ""},
		{"GRPC_HOST", text, inFlag, ""},
		{"GRPC_PORT", whole, inFlag, ""},
		{"GRPC_UDS", text, "weir listens on TCP: --grpc 127.0.0.1:8081 is for this machine alone; change the address of Envoy's cluster", ""},
		{"GRPC_MAX_CONNECTION_AGE", length, inFlag, ""},
		{"GRPC_MAX_CONNECTION_AGE_GRACE", length, "streams of an old connection have 10 s to end", "10s"},
		{"GRPC_SERVER_USE_TLS", flag, inFlag, "false"},
		{"GRPC_SERVER_TLS_CERT", text, "GRPC_SERVER_USE_TLS is false", "*"},
		{"GRPC_SERVER_TLS_KEY", text, "GRPC_SERVER_USE_TLS is false", "*"},
		{"GRPC_CLIENT_TLS_CACERT", text, "GRPC_SERVER_USE_TLS is false", "*"},
		{"GRPC_CLIENT_TLS_SAN", text, "weir takes every client with a certificate of the CA: give Envoy's clients a CA of their own", ""},
		{"DEBUG_HOST", text, inFlag, ""},
		{"DEBUG_PORT", whole, inFlag, ""},

		{"BACKEND_TYPE", text, inFlag, ""},
		{"REDIS_SOCKET_TYPE", text, inFlag, ""},
		{"REDIS_TYPE", text, inFlag, ""},
		{"REDIS_URL", text, inFlag, ""},
		{"REDIS_AUTH", text, inFlag, ""},
		{"REDIS_SENTINEL_AUTH", text, "weir logs in to the sentinels as to the master", ""},
		{"REDIS_TLS", flag, inFlag, "false"},
		{"REDIS_TLS_CLIENT_CERT", text, redisTLS, ""},
		{"REDIS_TLS_CLIENT_KEY", text, redisTLS, ""},
		{"REDIS_TLS_CACERT", text, redisTLS, ""},
		{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", flag, "weir checks the names of servers", "false"},
		{"REDIS_POOL_SIZE", whole, noTuning, "*"},
		{"REDIS_POOL_ON_EMPTY_BEHAVIOR", text, noTuning, "*"},
		{"REDIS_PIPELINE_WINDOW", length, noTuning, "*"},
		{"REDIS_PIPELINE_LIMIT", whole, noTuning + ", and it has no effect in ratelimit", "*"},
		{"REDIS_CLUSTER_PIPELINE_PARALLELISM", whole, noTuning, "*"},
		{"REDIS_TIMEOUT", length, noTuning, "*"},
		{"REDIS_STARTUP_INITIAL_INTERVAL", length, noTuning, "*"},
		{"REDIS_STARTUP_MAX_INTERVAL", length, noTuning, "*"},
		{"REDIS_STARTUP_MAX_ELAPSED_TIME", length, noTuning, "*"},
		{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", flag, "/readyz does not speak of the store", "false"},
		{"REDIS_PERSECOND", flag, "all counts are in one store: the counts of the second Redis go to the first", "false"},
		{"REDIS_PERSECOND_SOCKET_TYPE", text, perTwo, "*"},
		{"REDIS_PERSECOND_TYPE", text, perTwo, "*"},
		{"REDIS_PERSECOND_URL", text, perTwo, "*"},
		{"REDIS_PERSECOND_POOL_SIZE", whole, perTwo, "*"},
		{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", text, perTwo, "*"},
		{"REDIS_PERSECOND_AUTH", text, perTwo, "*"},
		{"REDIS_PERSECOND_SENTINEL_AUTH", text, perTwo, "*"},
		{"REDIS_PERSECOND_TLS", flag, perTwo, "*"},
		{"REDIS_PERSECOND_PIPELINE_WINDOW", length, perTwo, "*"},
		{"REDIS_PERSECOND_PIPELINE_LIMIT", whole, perTwo, "*"},
		{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", whole, perTwo, "*"},
		{"REDIS_PERSECOND_TIMEOUT", length, perTwo, "*"},
		{"MEMCACHE_HOST_PORT", text, inFlag, ""},
		{"MEMCACHE_SRV", text, "weir asks no SRV records: name the servers, --store memcached://HOST:PORT,HOST:PORT", ""},
		{"MEMCACHE_SRV_REFRESH", length, "weir asks no SRV records", "*"},
		{"MEMCACHE_MAX_IDLE_CONNS", whole, noTuning, "*"},
		{"MEMCACHE_TLS", flag, "weir speaks to Memcached without TLS", "false"},
		{"MEMCACHE_TLS_CLIENT_CERT", text, "see MEMCACHE_TLS", "*"},
		{"MEMCACHE_TLS_CLIENT_KEY", text, "see MEMCACHE_TLS", "*"},
		{"MEMCACHE_TLS_CACERT", text, "see MEMCACHE_TLS", "*"},
		{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", flag, "see MEMCACHE_TLS", "*"},

		{"CACHE_KEY_PREFIX", text, "the keys of counts have no prefix to choose; in a Redis that is shared take a database of its own, redis://HOST:PORT/1", ""},
		{"EXPIRATION_JITTER_MAX_SECONDS", whole, "counts end with their window, all by themselves", "*"},
		{"LOCAL_CACHE_SIZE_IN_BYTES", whole, "a denial costs no more than an answer from such a cache", "*"},
		{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", flag, "a refused request is never charged", "*"},
		{"NEAR_LIMIT_RATIO", real, "weir_near_limit_total counts from 80 % on", "0.8"},

		{"SHADOW_MODE", flag, "write shadow_mode: true at each limit, or enforce nothing in Envoy's filter: filter_enforced with numerator: 0", "false"},
		{"QUOTA_MODE", flag, "write quota_mode: true at each limit", "false"},
		{"RESPONSE_DYNAMIC_METADATA", flag, "the metadata of rules goes back all the same", "false"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED", flag, headers, "false"},
		{"LIMIT_LIMIT_HEADER", text, headers, ""},
		{"LIMIT_REMAINING_HEADER", text, headers, ""},
		{"LIMIT_RESET_HEADER", text, headers, ""},

		{"LOG_LEVEL", text, "weir logs events for its operator, and no calls", "*"},
		{"LOG_FORMAT", text, "logs are lines of key=value", "text"},
		{"USE_STATSD", flag, metrics, "false"},
		{"STATSD_HOST", text, "see USE_STATSD", "*"},
		{"STATSD_PORT", whole, "see USE_STATSD", "*"},
		{"STATSD_PROTOCOL", text, "see USE_STATSD", "*"},
		{"USE_DOG_STATSD", flag, metrics, "false"},
		{"USE_DOG_STATSD_MOGRIFIERS", text, "metrics have labels as they are; Prometheus can relabel them", ""},
		{"USE_PROMETHEUS", flag, "Prometheus fetches /metrics of the admin listener, under other names: docs/envoy.md has them", "false"},
		{"PROMETHEUS_ADDR", text, "see USE_PROMETHEUS", "*"},
		{"PROMETHEUS_PATH", text, "see USE_PROMETHEUS", "*"},
		{"PROMETHEUS_MAPPER_YAML", text, "metrics have labels as they are; Prometheus can relabel them", ""},
		{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", flag, "weir_call_duration_seconds is in seconds", "false"},
		{"EXTRA_TAGS", text, "let Prometheus add labels where it fetches", ""},
		{"DISABLE_STATS", flag, scraped, "*"},
		{"STATS_FLUSH_INTERVAL", length, scraped, "*"},
		{"GOSTATS_FLUSH_INTERVAL_SECONDS", whole, scraped, "*"},
		{"GOSTATS_LOGGING_SINK_DISABLED", flag, scraped, "*"},
		{"GOSTATS_BATCH_ENABLED", flag, scraped, "*"},
		{"GOSTATS_BATCH_SIZE", whole, scraped, "*"},
		{"TRACING_ENABLED", flag, tracing, "false"},
		{"TRACING_SERVICE_NAME", text, tracing, ""},
		{"TRACING_SERVICE_NAMESPACE", text, tracing, ""},
		{"TRACING_SERVICE_INSTANCE_ID", text, tracing, ""},
		{"TRACING_EXPORTER_PROTOCOL", text, tracing, ""},
		{"TRACING_SAMPLING_RATE", real, tracing, ""},
	}
}

// group is the variables with a prefix.
func group(prefix string) []string {
	var names []string
	for _, v := range variables() {
		if strings.HasPrefix(v.name, prefix) {
			names = append(names, v.name)
		}
	}
	return names
}
