package importenv

import (
	"fmt"
	"slices"
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
	port
	ratio
	protocol
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
	case port:
		_, err = strconv.ParseUint(value, 0, 16)
		should = "a port from 0 to 65535"
	case ratio:
		var n float64
		if n, err = strconv.ParseFloat(value, 32); err == nil && !(n >= 0 && n <= 1) { // NaN is neither
			err = strconv.ErrRange
		}
		should = "a number from 0 to 1"
	case protocol:
		if !slices.Contains([]string{"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6"}, value) {
			err = strconv.ErrSyntax
		}
		should = "tcp or udp"
	case text:
	}
	if value == "" || err == nil {
		return nil
	}
	return &InputError{fmt.Sprintf("%s is %q; it must be %s", v.name, value, should)}
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
		files    = "CONFIG_TYPE is FILE"
		perTwo   = "REDIS_PERSECOND is false"
	)
	return []variable{
		{"RUNTIME_ROOT", text, inFlag, ""},
		{"RUNTIME_SUBDIRECTORY", text, inFlag, ""},
		{"RUNTIME_APPDIRECTORY", text, inFlag, ""},
		{"RUNTIME_WATCH_ROOT", flag, "weir sees files that change as well as links that are turned", "*"},
		{"RUNTIME_IGNOREDOTFILES", flag, "weir always skips names with a dot in front: rename the files that hold rules", "true"},
		{"MERGE_DOMAIN_CONFIG", flag, "a domain has one file: put all its descriptors into one; weir lint tells where a domain comes twice", "false"},
		{"CONFIG_TYPE", text, inFlag, ""},
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
		{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", whole, "the bound of an answer is fixed: docs/bounds.md has it", "*"},
		{"FORCE_START_WITHOUT_INITIAL_CONFIG", flag, "with CONFIG_TYPE FILE weir starts with rules or not at all", "false"},
		{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", flag, inFlag, "false"},

		{"HOST", text, inFlag, ""},
		{"PORT", port, inFlag, ""},
		{"GRPC_HOST", text, inFlag, ""},
		{"GRPC_PORT", port, inFlag, ""},
		{"GRPC_UDS", text, inFlag, ""},
		{"GRPC_MAX_CONNECTION_AGE", length, inFlag, ""},
		{"GRPC_MAX_CONNECTION_AGE_GRACE", length, "streams of an old connection have 10 s to end", "10s"},
		{"GRPC_SERVER_USE_TLS", flag, inFlag, "false"},
		{"GRPC_SERVER_TLS_CERT", text, "GRPC_SERVER_USE_TLS is false", "*"},
		{"GRPC_SERVER_TLS_KEY", text, "GRPC_SERVER_USE_TLS is false", "*"},
		{"GRPC_CLIENT_TLS_CACERT", text, "GRPC_SERVER_USE_TLS is false", "*"},
		{"GRPC_CLIENT_TLS_SAN", text, inFlag, ""},
		{"DEBUG_HOST", text, inFlag, ""},
		{"DEBUG_PORT", port, inFlag, ""},

		{"BACKEND_TYPE", text, inFlag, ""},
		{"REDIS_SOCKET_TYPE", text, inFlag, ""},
		{"REDIS_TYPE", text, inFlag, ""},
		{"REDIS_URL", text, inFlag, ""},
		{"REDIS_AUTH", text, inFlag, ""},
		{"REDIS_SENTINEL_AUTH", text, inFlag, ""},
		{"REDIS_TLS", flag, inFlag, "false"},
		{"REDIS_TLS_CLIENT_CERT", text, inFlag, ""},
		{"REDIS_TLS_CLIENT_KEY", text, inFlag, ""},
		{"REDIS_TLS_CACERT", text, inFlag, ""},
		{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", flag, inFlag, "false"},
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
		{"MEMCACHE_TLS", flag, inFlag, "false"},
		{"MEMCACHE_TLS_CLIENT_CERT", text, "see MEMCACHE_TLS", "*"},
		{"MEMCACHE_TLS_CLIENT_KEY", text, "see MEMCACHE_TLS", "*"},
		{"MEMCACHE_TLS_CACERT", text, "see MEMCACHE_TLS", "*"},
		{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", flag, "see MEMCACHE_TLS", "*"},

		{"CACHE_KEY_PREFIX", text, "the keys of counts have no prefix to choose; in a Redis that is shared take a database of its own, redis://HOST:PORT/1", ""},
		{"EXPIRATION_JITTER_MAX_SECONDS", whole, "counts end with their window, all by themselves", "*"},
		{"LOCAL_CACHE_SIZE_IN_BYTES", whole, "a denial costs no more than an answer from such a cache", "*"},
		{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", flag, "a refused request is never charged", "*"},
		{"NEAR_LIMIT_RATIO", ratio, inFlag, ""},

		{"SHADOW_MODE", flag, inFlag, "false"},
		{"QUOTA_MODE", flag, inFlag, "false"},
		{"RESPONSE_DYNAMIC_METADATA", flag, "the metadata of rules goes back all the same", "false"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED", flag, inFlag, "false"},
		{"LIMIT_LIMIT_HEADER", text, inFlag, ""},
		{"LIMIT_REMAINING_HEADER", text, inFlag, ""},
		{"LIMIT_RESET_HEADER", text, inFlag, ""},

		{"LOG_LEVEL", text, inFlag, ""},
		{"LOG_FORMAT", text, "logs are lines of key=value", "*"},
		{"USE_STATSD", flag, inFlag, "false"},
		{"STATSD_HOST", text, "see USE_STATSD", "*"},
		{"STATSD_PORT", port, "see USE_STATSD", "*"},
		{"STATSD_PROTOCOL", protocol, inFlag, ""},
		{"USE_DOG_STATSD", flag, inFlag, "false"},
		{"USE_DOG_STATSD_MOGRIFIERS", text, "names stay as they are; map them where they are kept", ""},
		{"USE_PROMETHEUS", flag, inFlag, "false"},
		{"PROMETHEUS_ADDR", text, inFlag, ""},
		{"PROMETHEUS_PATH", text, inFlag, ""},
		{"PROMETHEUS_MAPPER_YAML", text, "metrics have the names of ratelimit's default mapper; Prometheus can relabel them", ""},
		{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", flag, "ratelimit_service_response_time_seconds is in seconds", "false"},
		{"EXTRA_TAGS", text, inFlag, ""},
		{"DISABLE_STATS", flag, inFlag, "false"},
		{"STATS_FLUSH_INTERVAL", length, inFlag, ""},
		{"GOSTATS_FLUSH_INTERVAL_SECONDS", whole, "ratelimit does not read it either: STATS_FLUSH_INTERVAL says how often", "*"},
		{"GOSTATS_LOGGING_SINK_DISABLED", flag, "statistics are never written to the log", "*"},
		{"GOSTATS_BATCH_ENABLED", flag, "statistics are told together", "*"},
		{"GOSTATS_BATCH_SIZE", whole, "statistics are told together", "*"},
		{"TRACING_ENABLED", flag, inFlag, "false"},
		{"TRACING_SERVICE_NAME", text, inFlag, ""},
		{"TRACING_SERVICE_NAMESPACE", text, inFlag, ""},
		{"TRACING_SERVICE_INSTANCE_ID", text, inFlag, ""},
		{"TRACING_EXPORTER_PROTOCOL", text, inFlag, ""},
		{"TRACING_SAMPLING_RATE", real, inFlag, ""},
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
