package importenv

import (
	"net"
	"net/netip"
	"path"
)

// rules finds the folder of the rule files.
func (t *translation) rules() error {
	switch kind := t.get("CONFIG_TYPE", "FILE"); kind {
	case "FILE":
	case "GRPC_XDS_SOTW":
		t.flag("--rules", "rules/")
		for _, prefix := range []string{"CONFIG_GRPC_XDS_", "XDS_CLIENT_", "RUNTIME_"} {
			t.idle("see CONFIG_TYPE", group(prefix)...)
		}
		return nil
	default:
		return &InputError{"CONFIG_TYPE is " + kind + "; it must be FILE or GRPC_XDS_SOTW"}
	}
	root, sub := t.get("RUNTIME_ROOT", "/srv/runtime_data/current"), t.env["RUNTIME_SUBDIRECTORY"]
	folder := path.Join(root, sub, t.get("RUNTIME_APPDIRECTORY", "config"))
	t.became("--rules", folder, "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY")
	if watched, set := t.env["RUNTIME_WATCH_ROOT"]; sub == "" && (!set || truth(watched)) {
		t.note("RUNTIME_SUBDIRECTORY", Differs, "it is empty, and ratelimit reads no rules at all then; weir reads the rules of --rules")
	}
	return nil
}

// doors are the addresses. ratelimit's are on all interfaces.
func (t *translation) doors() error {
	const everywhere = "0.0.0.0"
	t.became("--http", net.JoinHostPort(t.get("HOST", everywhere), t.get("PORT", "8080")), "HOST", "PORT")
	if _, set := t.env["GRPC_UDS"]; set {
		t.flag("--grpc", net.JoinHostPort("127.0.0.1", "8081"))
		t.idle("ratelimit listens on GRPC_UDS instead", "GRPC_HOST", "GRPC_PORT")
	} else {
		t.became("--grpc", net.JoinHostPort(t.get("GRPC_HOST", everywhere), t.get("GRPC_PORT", "8081")), "GRPC_HOST", "GRPC_PORT")
	}
	if age, set := t.env["GRPC_MAX_CONNECTION_AGE"]; set {
		t.became("--grpc-max-connection-age", age, "GRPC_MAX_CONNECTION_AGE")
	}
	host, set := t.env["DEBUG_HOST"]
	if !set {
		host = "127.0.0.1"
		t.note("DEBUG_HOST", Differs, "not set, which is 0.0.0.0 in ratelimit; weir's admin listener stays on loopback: "+
			"to reach it from elsewhere write --admin 0.0.0.0:"+t.get("DEBUG_PORT", "6070")+" --admin-token-file FILE")
	}
	t.became("--admin", net.JoinHostPort(host, t.get("DEBUG_PORT", "6070")), "DEBUG_HOST", "DEBUG_PORT")
	if at, err := netip.ParseAddr(host); set && host != "localhost" && (err != nil || !at.IsLoopback()) {
		t.flag("--admin-token-file", "admin-token")
		t.told["DEBUG_HOST"] = Note{"DEBUG_HOST", Differs, "off loopback the admin listener wants a token: " +
			"write one to the file admin-token, and give it to Prometheus as its bearer token"}
	}
	return nil
}

// tls is for all listeners, where ratelimit has it for gRPC alone.
func (t *translation) tls() error {
	if !t.yes("GRPC_SERVER_USE_TLS") {
		return nil
	}
	cert, key := t.env["GRPC_SERVER_TLS_CERT"], t.env["GRPC_SERVER_TLS_KEY"]
	if cert == "" || key == "" {
		return &InputError{"GRPC_SERVER_USE_TLS is set without GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY"}
	}
	t.note("GRPC_SERVER_USE_TLS", Differs, "with --tls-cert all listeners speak TLS: health checks and clients of /json ask https")
	t.became("--tls-cert", cert, "GRPC_SERVER_TLS_CERT")
	t.became("--tls-key", key, "GRPC_SERVER_TLS_KEY")
	if ca := t.env["GRPC_CLIENT_TLS_CACERT"]; ca != "" {
		t.became("--tls-client-ca", ca, "GRPC_CLIENT_TLS_CACERT")
	}
	return nil
}

func (t *translation) modes() error {
	if t.yes("RESPONSE_DYNAMIC_METADATA") {
		t.became("--dynamic-metadata", "", "RESPONSE_DYNAMIC_METADATA")
	}
	return nil
}
