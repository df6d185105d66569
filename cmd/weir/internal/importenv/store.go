package importenv

import "strings"

// store makes the URL of the store.
func (t *translation) store() error {
	switch backend := t.get("BACKEND_TYPE", "redis"); backend {
	case "redis":
		return t.redis()
	case "memcache":
		t.memcached()
		return nil
	default:
		return &InputError{"BACKEND_TYPE is " + backend + "; it must be redis or memcache"}
	}
}

func (t *translation) memcached() {
	t.idle("BACKEND_TYPE is memcache", group("REDIS_")...)
	servers := strings.ReplaceAll(t.env["MEMCACHE_HOST_PORT"], " ", "")
	if servers == "" {
		servers = "HOST:PORT" // MEMCACHE_SRV says what to do
	}
	t.became("--store", "memcached://"+servers, "MEMCACHE_HOST_PORT", "BACKEND_TYPE")
	if !strings.Contains(servers, ":") {
		t.told["MEMCACHE_HOST_PORT"] = Note{"MEMCACHE_HOST_PORT", Differs, "it names no port; write HOST:PORT"}
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
	t.became("--store", store, "REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "BACKEND_TYPE", "REDIS_AUTH", "REDIS_TLS")
	if auth := t.env["REDIS_AUTH"]; auth != "" {
		text := "${REDIS_AUTH} in --store, which must be set where weir serve is started"
		if _, password, ok := strings.Cut(":"+auth, ":"); ok && strings.ContainsAny(password, "/?#%@[] ") {
			t.told["REDIS_AUTH"] = Note{"REDIS_AUTH", Differs, text + "; it is part of a URL now: write / as %2F, @ as %40 and so on"}
		} else {
			t.told["REDIS_AUTH"] = Note{"REDIS_AUTH", Flag, text}
		}
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
	secured := "" // of a single one the scheme says it
	if t.yes("REDIS_TLS") {
		secured = "?tls=1"
	}
	switch kind := strings.ToLower(t.get("REDIS_TYPE", "SINGLE")); kind {
	case "single":
		return t.single(at, login), nil
	case "cluster":
		return "redis+cluster://" + login + t.hosts(at) + secured, nil
	case "sentinel":
		master, sentinels, ok := strings.Cut(at, ",")
		if !ok {
			return "", &InputError{"REDIS_URL must be MASTER,HOST:PORT,… when REDIS_TYPE is SENTINEL"}
		}
		return "redis+sentinel://" + login + t.hosts(sentinels) + "/" + master + secured, nil
	default:
		return "", &InputError{"REDIS_TYPE is " + kind + "; it must be SINGLE, SENTINEL or CLUSTER"}
	}
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
			t.note("REDIS_URL", Differs, "the password in it is left out here: write redis+…://USER:PASSWORD@ before the first host")
		}
		hosts = append(hosts, strings.TrimSpace(host))
	}
	return strings.Join(hosts, ",")
}
