package importenv

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rules finds the folder of the rule files, or the control plane.
func (t *translation) rules() error {
	folder := []string{"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"}
	switch kind := t.get("CONFIG_TYPE", "FILE"); kind {
	case "FILE":
	case "GRPC_XDS_SOTW":
		return t.controlPlane(folder)
	default:
		return &InputError{fmt.Sprintf("CONFIG_TYPE is %q; it must be FILE or GRPC_XDS_SOTW", kind)}
	}
	t.idle("it is ratelimit's default", "CONFIG_TYPE")
	t.idle("CONFIG_TYPE is FILE", slices.Concat(group("CONFIG_GRPC_XDS_"), group("XDS_CLIENT_"))...)
	if t.has("--rules", append(folder, "CONFIG_TYPE")...) {
		return nil
	}
	root, sub := t.get("RUNTIME_ROOT", "/srv/runtime_data/current"), t.env["RUNTIME_SUBDIRECTORY"]
	t.became("--rules", path.Join(root, sub, t.get("RUNTIME_APPDIRECTORY", "config")), folder...)
	if watched, set := t.env["RUNTIME_WATCH_ROOT"]; sub == "" && (!set || truth(watched)) {
		t.note("RUNTIME_SUBDIRECTORY", Differs, "it is empty, and ratelimit reads no rules at all then; weir reads the rules of --rules")
	}
	return nil
}

// controlPlane is the URL of an xDS server. The package that asks it says what its options are.
func (t *translation) controlPlane(folder []string) error {
	t.idle("CONFIG_TYPE is GRPC_XDS_SOTW", append(folder, "RUNTIME_WATCH_ROOT", "RUNTIME_IGNOREDOTFILES")...)
	if t.has("--rules", append(group("CONFIG_GRPC_XDS_"), "CONFIG_TYPE", "FORCE_START_WITHOUT_INITIAL_CONFIG")...) {
		return nil
	}
	server := t.get("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000")
	if strings.ContainsAny(server, "/?#@") {
		return &InputError{fmt.Sprintf("CONFIG_GRPC_XDS_SERVER_URL is %q; it must be HOST:PORT", server)}
	}
	names := []string{"CONFIG_GRPC_XDS_SERVER_URL"}
	options := ""
	option := func(option, name, value string) {
		if value != "" {
			options += "&" + option + "=" + inQuery(value)
			names = append(names, name)
		}
	}
	option("node", "CONFIG_GRPC_XDS_NODE_ID", t.get("CONFIG_GRPC_XDS_NODE_ID", "default"))
	option("node-metadata", "CONFIG_GRPC_XDS_NODE_METADATA", t.env["CONFIG_GRPC_XDS_NODE_METADATA"])
	if secrets := "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"; t.env[secrets] != "" {
		options += "&metadata=${" + secrets + "}" // so that they are printed nowhere
		names = append(names, secrets)
	}
	files := []string{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "CONFIG_GRPC_XDS_SERVER_TLS_SAN"}
	if t.yes("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		option("tls", "CONFIG_GRPC_XDS_SERVER_USE_TLS", "true")
		for i, name := range []string{"ca", "cert", "key", "server-name"} {
			option(name, files[i], t.env[files[i]])
		}
	} else {
		t.idle("CONFIG_GRPC_XDS_SERVER_USE_TLS is false", files...)
	}
	if t.yes("FORCE_START_WITHOUT_INITIAL_CONFIG") {
		option("force-start", "FORCE_START_WITHOUT_INITIAL_CONFIG", "true")
	}
	t.became("--rules", "xds://"+server+"?"+options[1:], append(names, "CONFIG_TYPE")...)
	t.idle("the next try waits half a second at first and 30 s at most, by chance", append(group("XDS_CLIENT_BACKOFF_"), "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL")...)
	return nil
}

// inQuery is a value as options of URLs have it. A slash may stand there as it is.
func inQuery(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "%2F", "/") }

const everywhere = "0.0.0.0"

// IsDefault is whether a flag has the address that ratelimit listens at when no variable says otherwise.
func IsDefault(flag, value string) bool {
	return flag == "--http" && value == everywhere+":8080" || flag == "--grpc" && value == everywhere+":8081"
}

// doors are the addresses. ratelimit's are on all interfaces.
func (t *translation) doors() error {
	t.became("--http", net.JoinHostPort(t.get("HOST", everywhere), t.get("PORT", "8080")), "HOST", "PORT")
	socket, byPath := t.env["GRPC_UDS"]
	if byPath {
		t.idle("ratelimit listens on GRPC_UDS instead", "GRPC_HOST", "GRPC_PORT")
		if !filepath.IsAbs(socket) && !slices.Contains(t.given, "--grpc") {
			return &InputError{fmt.Sprintf("GRPC_UDS is %q; it must be a whole path, as /run/ratelimit.sock", socket)}
		}
		t.became("--grpc", "unix://"+socket, "GRPC_UDS")
	} else {
		t.became("--grpc", net.JoinHostPort(t.get("GRPC_HOST", everywhere), t.get("GRPC_PORT", "8081")), "GRPC_HOST", "GRPC_PORT")
	}
	if age, set := t.env["GRPC_MAX_CONNECTION_AGE"]; set {
		t.became("--grpc-max-connection-age", age, "GRPC_MAX_CONNECTION_AGE")
	}
	t.became("--debug", net.JoinHostPort(t.get("DEBUG_HOST", everywhere), t.get("DEBUG_PORT", "6070")), "DEBUG_HOST", "DEBUG_PORT")
	if t.yes("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED") {
		t.became("--healthcheck-needs-rules", "", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")
	}
	return nil
}

// tls is for gRPC alone.
func (t *translation) tls() error {
	if !t.yes("GRPC_SERVER_USE_TLS") || t.has("--tls-cert", group("GRPC_SERVER_")...) {
		t.idle("GRPC_SERVER_USE_TLS is false", "GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN")
		return nil
	}
	cert, key := t.env["GRPC_SERVER_TLS_CERT"], t.env["GRPC_SERVER_TLS_KEY"]
	if cert == "" || key == "" {
		return &InputError{"GRPC_SERVER_USE_TLS is true; GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY must name the files of the certificate and its key"}
	}
	t.became("--tls-listeners", "grpc", "GRPC_SERVER_USE_TLS")
	t.became("--tls-cert", cert, "GRPC_SERVER_TLS_CERT")
	t.became("--tls-key", key, "GRPC_SERVER_TLS_KEY")
	ca, san := t.env["GRPC_CLIENT_TLS_CACERT"], t.env["GRPC_CLIENT_TLS_SAN"]
	if ca != "" {
		t.became("--tls-client-ca", ca, "GRPC_CLIENT_TLS_CACERT")
	}
	switch {
	case san != "" && ca != "":
		t.became("--tls-client-san", san, "GRPC_CLIENT_TLS_SAN")
	case san != "":
		t.note("GRPC_CLIENT_TLS_SAN", NotNeeded, "without GRPC_CLIENT_TLS_CACERT clients show no certificate")
	}
	return nil
}

// statistics are told to Prometheus, and to a statsd server. One of both is enough for ratelimit, which takes no more.
func (t *translation) statistics() error {
	var to []string
	for _, prefix := range []string{"USE_STATSD", "STATSD_", "USE_DOG_STATSD", "USE_PROMETHEUS", "PROMETHEUS_", "EXTRA_TAGS", "STATS_FLUSH_INTERVAL", "NEAR_LIMIT_RATIO"} {
		to = append(to, group(prefix)...)
	}
	if t.yes("DISABLE_STATS") {
		t.note("DISABLE_STATS", NotNeeded, "no statistics are told but at /metrics of the admin listener")
		t.idle("DISABLE_STATS is true", to...)
		return nil
	}
	_, chosen := t.env["USE_STATSD"]
	scraped := t.yes("USE_PROMETHEUS")
	if scraped {
		t.became("--metrics", t.get("PROMETHEUS_ADDR", ":9090")+t.get("PROMETHEUS_PATH", "/metrics"), "PROMETHEUS_ADDR", "PROMETHEUS_PATH")
		t.note("USE_PROMETHEUS", Flag, "--metrics and --metric-names ratelimit")
	} else {
		t.idle("USE_PROMETHEUS is false", group("PROMETHEUS_")...)
	}
	if !slices.Contains(t.given, "--metric-names") {
		t.flag("--metric-names", "ratelimit", "USE_PROMETHEUS")
	}
	dogs := t.yes("USE_DOG_STATSD")
	if dogs || truth(t.get("USE_STATSD", "true")) && (chosen || !scraped) {
		t.statsd(dogs)
	} else {
		t.idle("USE_STATSD is false", append(group("STATSD_"), "STATS_FLUSH_INTERVAL")...)
	}
	if tags, set := t.env["EXTRA_TAGS"]; set {
		labels, err := labelsOf(tags)
		if err != nil {
			return err
		}
		t.became("--metric-labels", labels, "EXTRA_TAGS")
	}
	if ratio, set := t.env["NEAR_LIMIT_RATIO"]; set {
		t.became("--near-limit-ratio", ratio, "NEAR_LIMIT_RATIO")
	}
	return nil
}

// statsd is the URL of a statsd server.
func (t *translation) statsd(dogs bool) {
	protocol := strings.TrimRight(t.get("STATSD_PROTOCOL", "tcp"), "46")
	options := ""
	if every, set := t.env["STATS_FLUSH_INTERVAL"]; set {
		options += "&every=" + every
	}
	names := []string{"STATSD_HOST", "STATSD_PORT", "STATS_FLUSH_INTERVAL", "STATSD_PROTOCOL"}
	if dogs {
		protocol, names[3] = "udp", "USE_DOG_STATSD"
		options += "&tags=dogstatsd"
		t.idle("USE_DOG_STATSD is true", "USE_STATSD", "STATSD_PROTOCOL")
	} else {
		names = append(names, "USE_STATSD")
	}
	if options != "" {
		options = "?" + options[1:]
	}
	t.became("--statsd", protocol+"://"+net.JoinHostPort(t.get("STATSD_HOST", "localhost"), t.get("STATSD_PORT", "8125"))+options, names...)
}

var notInLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// labelsOf makes labels of tags, NAME:VALUE,…. A character that no label's name has becomes _.
func labelsOf(tags string) (string, error) {
	var labels []string
	for tag := range strings.SplitSeq(tags, ",") {
		name, value, ok := strings.Cut(tag, ":")
		if !ok || name == "" || value == "" {
			return "", &InputError{fmt.Sprintf("EXTRA_TAGS is %q; it must be NAME:VALUE, and more with commas", tags)}
		}
		labels = append(labels, notInLabel.ReplaceAllString(name, "_")+"="+value)
	}
	return strings.Join(labels, ","), nil
}

// answers are what answers have beside the decision.
func (t *translation) answers() error {
	if t.yes("RESPONSE_DYNAMIC_METADATA") {
		t.became("--dynamic-metadata", "", "RESPONSE_DYNAMIC_METADATA")
	}
	if t.yes("SHADOW_MODE") {
		t.became("--shadow-mode", "", "SHADOW_MODE")
	}
	if t.yes("QUOTA_MODE") {
		t.wrong("QUOTA_MODE", "it makes all limits quota limits, which weir has limit by limit: write quota_mode: true at each")
	}
	names := []string{"LIMIT_LIMIT_HEADER", "LIMIT_REMAINING_HEADER", "LIMIT_RESET_HEADER"}
	if !t.yes("LIMIT_RESPONSE_HEADERS_ENABLED") {
		t.idle("LIMIT_RESPONSE_HEADERS_ENABLED is false", names...)
		return nil
	}
	t.became("--response-headers", strings.Join([]string{
		t.get(names[0], "RateLimit-Limit"), t.get(names[1], "RateLimit-Remaining"), t.get(names[2], "RateLimit-Reset"),
	}, ","), append(names, "LIMIT_RESPONSE_HEADERS_ENABLED")...)
	return nil
}

// levels are those of weir by ratelimit's.
var levels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info", "debug": "debug", "trace": "debug",
}

func (t *translation) logs() error {
	if level, set := t.env["LOG_LEVEL"]; set {
		known := levels[strings.ToLower(level)]
		if known == "" {
			return &InputError{fmt.Sprintf("LOG_LEVEL is %q; it must be panic, fatal, error, warn, info, debug or trace", level)}
		}
		t.became("--log-level", known, "LOG_LEVEL")
	}
	if strings.EqualFold(t.env["LOG_FORMAT"], "json") {
		t.became("--log-format", "json", "LOG_FORMAT")
	}
	return nil
}

// traces are asked for in OpenTelemetry's own variables, of which ratelimit reads most.
func (t *translation) traces() error {
	if !t.yes("TRACING_ENABLED") {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
			if t.env[name] != "" && t.env["OTEL_TRACES_EXPORTER"] == "" {
				t.otel["OTEL_TRACES_EXPORTER"] = "none"
				t.note("TRACING_ENABLED", Flag, "OTEL_TRACES_EXPORTER=none (not set; this is its default)")
			}
		}
		t.idle("TRACING_ENABLED is false", group("TRACING_")...)
		return nil
	}
	put := func(name, variable, value string) {
		if value == "" || t.env[variable] != "" {
			t.idle(variable+" is set", name)
			return
		}
		t.otel[variable] = value
		if t.env[name] != "" {
			t.note(name, Flag, variable+"="+value)
		}
	}
	put("TRACING_SERVICE_NAME", "OTEL_SERVICE_NAME", t.get("TRACING_SERVICE_NAME", "RateLimit"))
	var attributes []string
	for _, a := range [][2]string{{"service.namespace", "TRACING_SERVICE_NAMESPACE"}, {"service.instance.id", "TRACING_SERVICE_INSTANCE_ID"}} {
		if value := t.env[a[1]]; value != "" {
			attributes = append(attributes, a[0]+"="+url.PathEscape(value))
		}
	}
	put("TRACING_SERVICE_NAMESPACE", "OTEL_RESOURCE_ATTRIBUTES", strings.Join(attributes, ","))
	t.idle("OTEL_RESOURCE_ATTRIBUTES has it", "TRACING_SERVICE_INSTANCE_ID")
	switch protocol := strings.ToLower(t.get("TRACING_EXPORTER_PROTOCOL", "http")); protocol {
	case "http":
		put("TRACING_EXPORTER_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	case "grpc":
		put("TRACING_EXPORTER_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	default:
		return &InputError{fmt.Sprintf("TRACING_EXPORTER_PROTOCOL is %q; it must be http or grpc", protocol)}
	}
	if rate, set := t.env["TRACING_SAMPLING_RATE"]; set {
		n, _ := strconv.ParseFloat(rate, 64) // it was checked
		put("TRACING_SAMPLING_RATE", "OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
		put("TRACING_SAMPLING_RATE", "OTEL_TRACES_SAMPLER_ARG", strconv.FormatFloat(min(max(n, 0), 1), 'f', -1, 64))
	}
	if t.env["OTEL_EXPORTER_OTLP_ENDPOINT"]+t.env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "" { // OpenTelemetry has a default for each protocol
		t.otel["OTEL_EXPORTER_OTLP_ENDPOINT"] = map[string]string{"grpc": "https://localhost:4317", "http/protobuf": "https://localhost:4318"}[t.otel["OTEL_EXPORTER_OTLP_PROTOCOL"]]
	}
	t.note("TRACING_ENABLED", Flag, "traces go where OTEL_EXPORTER_OTLP_ENDPOINT says")
	return nil
}
