package importenv

import (
	"fmt"
	"slices"
	"strings"
)

// store makes the URL of the store.
func (t *translation) store() error {
	if t.has("--store", slices.Concat(group("REDIS_"), group("MEMCACHE_"), []string{"BACKEND_TYPE"})...) {
		return nil
	}
	switch backend := t.get("BACKEND_TYPE", "redis"); backend {
	case "redis":
		return t.redis()
	case "memcache":
		t.memcached()
		return nil
	default:
		return &InputError{fmt.Sprintf("BACKEND_TYPE is %q; it must be redis or memcache", backend)}
	}
}

func (t *translation) memcached() {
	t.idle("BACKEND_TYPE is memcache", group("REDIS_")...)
	if t.yes("MEMCACHE_TLS") {
		t.wrong("MEMCACHE_TLS", "weir speaks to Memcached without TLS; take another --store")
	}
	servers := strings.ReplaceAll(t.env["MEMCACHE_HOST_PORT"], " ", "")
	if servers == "" {
		t.wrong("MEMCACHE_SRV", "weir asks no SRV records: name the servers, --store memcached://HOST:PORT,HOST:PORT")
		servers = "HOST:PORT"
	}
	t.became("--store", "memcached://"+servers, "MEMCACHE_HOST_PORT", "BACKEND_TYPE")
	if !strings.Contains(servers, ":") {
		t.told["MEMCACHE_HOST_PORT"] = Note{Name: "MEMCACHE_HOST_PORT", Fate: Differs, Text: "it names no port; write HOST:PORT"}
	}
}

func (t *translation) redis() error {
	t.idle("BACKEND_TYPE is redis", group("MEMCACHE_")...)
	if t.yes("REDIS_PERSECOND") {
		t.idle("see REDIS_PERSECOND", group("REDIS_PERSECOND_")...)
	}
	store, err := t.redisURL()
	if err != nil {
		return err
	}
	t.became("--store", store, "REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "BACKEND_TYPE", "REDIS_AUTH", "REDIS_TLS",
		"REDIS_TLS_CACERT", "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "REDIS_SENTINEL_AUTH")
	if auth := t.env["REDIS_AUTH"]; auth != "" {
		text := "${REDIS_AUTH} in --store, which must be set where weir serve is started"
		if _, password, ok := strings.Cut(":"+auth, ":"); ok && strings.ContainsAny(password, "/?#%@[] ") {
			text += "; it is part of a URL then: write / as %2F, @ as %40 and so on"
		}
		t.told["REDIS_AUTH"] = Note{Name: "REDIS_AUTH", Fate: Flag, Text: text}
	}
	return nil
}

func (t *translation) redisURL() (string, error) {
	at := t.get("REDIS_URL", "/var/run/nutcracker/ratelimit.sock")
	login := "" // the password stays a variable, so that it is printed nowhere
	if auth := t.env["REDIS_AUTH"]; strings.Contains(auth, ":") {
		login = "${REDIS_AUTH}@"
	} else if auth != "" {
		login = ":${REDIS_AUTH}@"
	}
	switch kind := strings.ToLower(t.get("REDIS_TYPE", "SINGLE")); kind {
	case "single":
		t.idle("REDIS_TYPE is SINGLE", "REDIS_SENTINEL_AUTH")
		return t.single(at, login) + t.safely(""), nil
	case "cluster":
		t.idle("REDIS_TYPE is CLUSTER", "REDIS_SENTINEL_AUTH")
		return "redis+cluster://" + login + t.hosts(at) + t.safely("tls=1"), nil
	case "sentinel":
		master, sentinels, ok := strings.Cut(at, ",")
		if !ok {
			return "", &InputError{"REDIS_URL must be MASTER,HOST:PORT,… when REDIS_TYPE is SENTINEL"}
		}
		options := t.safely("tls=1")
		if sentinel := t.env["REDIS_SENTINEL_AUTH"]; sentinel != "" || login != "" {
			sentinel = map[bool]string{true: "none", false: "${REDIS_SENTINEL_AUTH}"}[sentinel == ""]
			options += map[bool]string{true: "?", false: "&"}[options == ""] + "sentinel-auth=" + sentinel
		}
		return "redis+sentinel://" + login + t.hosts(sentinels) + "/" + master + options, nil
	default:
		return "", &InputError{fmt.Sprintf("REDIS_TYPE is %q; it must be SINGLE, SENTINEL or CLUSTER", t.env["REDIS_TYPE"])}
	}
}

// safely is the options of a URL that are about TLS; says is how it says that there is any, unless its scheme does.
func (t *translation) safely(says string) string {
	files := []string{"REDIS_TLS_CACERT", "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY"}
	if !t.yes("REDIS_TLS") {
		t.idle("REDIS_TLS is false", append(files, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")...)
		return ""
	}
	var options []string
	if says != "" {
		options = append(options, says)
	}
	for i, name := range []string{"ca", "cert", "key"} {
		if file := t.env[files[i]]; file != "" {
			options = append(options, name+"="+inQuery(file))
		}
	}
	if t.yes("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
		options = append(options, "server-name=any")
	}
	if options == nil {
		return ""
	}
	return "?" + strings.Join(options, "&")
}

// single is the URL of one Redis, which may be a URL already.
func (t *translation) single(at, login string) string {
	scheme := "redis://"
	if t.yes("REDIS_TLS") {
		scheme = "rediss://"
	}
	address, variable := at, "REDIS_URL"
	if before, rest, ok := strings.Cut(at, "://"); ok {
		address, variable = rest, "REDIS_URL#"+before+"://"
	} else if t.get("REDIS_SOCKET_TYPE", "unix") == "unix" {
		return "redis+unix://" + login + at
	}
	if strings.Contains(address, "@") {
		t.note("REDIS_URL", Flag, "--store, which takes it from ${REDIS_URL} because a password is in it")
		return scheme + "${" + variable + "}"
	}
	return scheme + login + address
}

// hosts is a list of addresses without what else was in their URLs.
func (t *translation) hosts(list string) string {
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if _, rest, ok := strings.Cut(host, "://"); ok {
			host = rest
		}
		if i := strings.LastIndexByte(host, '@'); i >= 0 {
			host = host[i+1:]
			if t.env["REDIS_AUTH"] == "" {
				t.wrong("REDIS_URL", "the password in it is left out here: write redis+…://USER:PASSWORD@ before the first host, or set REDIS_AUTH")
			}
		}
		hosts = append(hosts, strings.TrimSpace(host))
	}
	return strings.Join(hosts, ",")
}
