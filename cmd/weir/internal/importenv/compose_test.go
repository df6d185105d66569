package importenv_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
)

// here is the environment that files are resolved in.
func here(name string) (string, bool) {
	value, ok := map[string]string{"HERE": "h", "EMPTY": "", "REDIS_AUTH": "hush"}[name]
	return value, ok
}

// TestResolve: variables stand for what docker compose makes of them.
func TestResolve(t *testing.T) {
	for value, want := range map[string]string{
		"plain":                  "plain",
		"${HERE}":                "h",
		"a${HERE}b${HERE}":       "ahbh",
		"$HERE.x":                "h.x",
		"$$HERE":                 "$HERE",
		"${HERE:-no}":            "h",
		"${NONE:-FILE}":          "FILE",
		"${NONE-FILE}":           "FILE",
		"${EMPTY:-FILE}":         "FILE",
		"${EMPTY-FILE}":          "",
		"${NONE:-${HERE}}":       "h",
		"${NONE:-${NO:-a}b}c":    "abc",
		"${HERE:+there}":         "there",
		"${NONE:+there}":         "",
		"${EMPTY+there}":         "there",
		"${HERE:?no}":            "h",
		"${NONE:-http://a:1/{}}": "http://a:1/{}",
		"${NONE:-a$$b}":          "a$b",
		"${NONE}":                "",
	} {
		env, err := importenv.Read("f", strings.NewReader("environment:\n  X: '"+value+"'\n"), here, "")
		if err != nil || env.Variables["X"] != want {
			t.Errorf("%s: %v, %v; want %q", value, env, err, want)
		}
	}
	nested := strings.Repeat("${A:-", 1000) + strings.Repeat("}", 1000)
	for _, value := range []string{"${", "${HERE", "${}", "${HERE:}", "${HERE;x}", "$", "$ x", "${NONE:?say it}", nested} {
		if env, err := importenv.Read("f", strings.NewReader("environment:\n  X: '"+value+"'\n"), here, ""); err == nil {
			t.Errorf("%.40s was read: %v", value, env)
		}
	}
}

// TestLines: in lines of NAME=VALUE a password with a dollar sign stays as it is.
func TestLines(t *testing.T) {
	env, err := importenv.Read("f", strings.NewReader(`A=${HERE:-x}
B=pa$$word$HERE
C='${HERE}'
D="${NONE:-d}"
- E=${NONE:-e}$$
- "F=f"
export G=${NONE}
`), here, "")
	want := map[string]string{"A": "h", "B": "pa$$word$HERE", "C": "${HERE}", "D": "d", "E": "e$", "F": "f", "G": ""}
	if err != nil || cmp.Diff(want, env.Variables) != "" || !slices.Equal(env.Unset, []string{"NONE"}) {
		t.Errorf("%v: %v %v", err, cmp.Diff(want, env.Variables), env.Unset)
	}
}

const composed = `
x-common: &common
  RUNTIME_WATCH_ROOT: "false"
services:
  redis:
    image: redis:alpine
    environment: {REDIS_AUTH: x}
  ratelimit:
    image: envoyproxy/ratelimit:master
    command: /bin/ratelimit
    env_file:
      - common.env
      - {path: none.env, required: false}
    environment:
      <<: *common
      USE_STATSD: false
      REDIS_SOCKET_TYPE: tcp
      REDIS_URL: ${REDIS_HOST:-redis}:6379
      REDIS_AUTH:
      RUNTIME_ROOT: /data
      CONFIG_TYPE: ${CONFIG_TYPE:-FILE}
      LOG_LEVEL: ${LOG_LEVEL}
  listed:
    image: golang
    env_file: common.env
    environment:
      - USE_STATSD=false
      - REDIS_URL=${REDIS_HOST:-redis}:6380
      - REDIS_AUTH
      - "GRPC_PORT=9000"
  file:
    env_file: common.env
`

// TestCompose: the service of a compose file that runs ratelimit, with its env_file and the .env beside it.
func TestCompose(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"compose.yaml": composed, "common.env": "PORT=9999\nLOG_LEVEL=info\nRUNTIME_ROOT=/other\n", ".env": "REDIS_HOST=beside\nHERE=no\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(service string) (*importenv.Environment, error) {
		return importenv.Read(filepath.Join(dir, "compose.yaml"), strings.NewReader(composed), here, service)
	}
	env, err := read("")
	want := map[string]string{
		"PORT": "9999", "LOG_LEVEL": "", "RUNTIME_ROOT": "/data", "RUNTIME_WATCH_ROOT": "false", "USE_STATSD": "false", "REDIS_SOCKET_TYPE": "tcp",
		"REDIS_URL": "beside:6379", "REDIS_AUTH": "hush", "CONFIG_TYPE": "FILE",
	}
	if err != nil || cmp.Diff(want, env.Variables) != "" || !slices.Equal(env.Unset, []string{"LOG_LEVEL"}) {
		t.Errorf("%v: %v %v", err, cmp.Diff(want, env.Variables), env.Unset)
	}
	if env, err = read("listed"); err != nil || env.Variables["REDIS_URL"] != "beside:6380" || env.Variables["GRPC_PORT"] != "9000" || env.Variables["REDIS_AUTH"] != "hush" || env.Variables["RUNTIME_ROOT"] != "/other" {
		t.Errorf("a list: %v %v", env, err)
	}
	if env, err = read("file"); err != nil || env.Variables["PORT"] != "9999" {
		t.Errorf("env_file alone: %v %v", env, err)
	}
	for name, c := range map[string]struct{ text, service, want string }{
		"no such service":   {composed, "nosuch", "has no service nosuch; it has file, listed, ratelimit, redis"},
		"two of them":       {"services:\n  a: {environment: [USE_STATSD=true]}\n  b: {environment: [USE_STATSD=true]}\n", "", "the services a, b have variables of ratelimit; say which it is: --service NAME"},
		"none of them":      {"services:\n  a: {environment: [X=true]}\n", "", "no service has a variable of ratelimit; say which it is: --service NAME"},
		"no YAML":           {"services: [\n", "", "f.yaml: "},
		"a list of lists":   {"environment:\n  - [A, B]\n", "", "f.yaml:2: this is not NAME=VALUE"},
		"a map of lists":    {"environment:\n  A: [B]\n", "", "f.yaml:2: A has no value that a variable can have"},
		"a text":            {"environment: A=B\n", "", "write the environment as a list of NAME=VALUE or as a map"},
		"a bad variable":    {"environment:\n  A: ${B\n", "", "f.yaml: A: ${ is not closed"},
		"a needed file":     {"env_file: none.env\nenvironment: {}\n", "", "none.env"},
		"a file of no path": {"env_file: {format: raw}\nenvironment: {}\n", "", "env_file: write the path of a file"},
	} {
		if _, err := importenv.Read("f.yaml", strings.NewReader(c.text), here, c.service); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
