package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const ruleFile = `domain: d
descriptors:
  - key: k
    limits: [5/s burst 10]
  - key: tight
    limits: [10/min, 3/h fixed-window anchored]
  - key: seen
    shadow_mode: true
    limits: [1/day]
  - key: open
    rate_limit: {unlimited: true}
  - key: shut
    limits: [0/s]
  - key: permits
    limits: [2 concurrent ttl 1min]
  - key: path
    value: /a
    name: way
    descriptors:
      - key: user
        limits: [10/day sliding-window 4]
`

func newLimiter(t testing.TB, store weir.Store) *rules.Limiter {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	return rules.NewLimiter(store, set)
}

func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	store := memstore.New(memstore.Options{})
	return New(newLimiter(t, store), store, o)
}

// script is a connection whose client says what is in, so much at a time, and
// leaves.
type script struct {
	net.Conn

	in     []byte
	most   int
	out    bytes.Buffer
	writes int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.most)], s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error)      { s.writes++; return s.out.Write(p) }
func (s *script) Close() error                     { return nil }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// TestOneWrite: one write answers all commands that one read has brought.
func TestOneWrite(t *testing.T) {
	command := bulks("CL.THROTTLE", "k", "9", "9", "9")
	n := readBuffer / len(command)
	c := &script{in: []byte(strings.Repeat(command, n)), most: readBuffer}
	newServer(t, Options{}).serve(t.Context(), c)
	if answers := strings.Count(c.out.String(), "*5"); answers != n || c.writes != 1 {
		t.Errorf("%d of %d commands were answered, by %d writes", answers, n, c.writes)
	}
}

// say is what s answers to a client that says in.
func say(t testing.TB, s *Server, in string) string {
	t.Helper()
	c := &script{in: []byte(in), most: 1 << 20}
	s.serve(t.Context(), c)
	return c.out.String()
}

// bulks is a command as clients send it.
func bulks(words ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(w), w)
	}
	return text.String()
}

func lines(text string) string { return strings.ReplaceAll(text, " ", "\r\n") + "\r\n" }

const (
	ok       = "+OK\r\n"
	noNumber = "-ERR value is not an integer or out of range\r\n"
	hello2   = "*14\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$4\r\nv1.2\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	hello3   = "%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$4\r\nv1.2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
)

// TestWire: bytes to bytes. After each of these a client sends one more PING,
// which a connection that was closed does not answer.
func TestWire(t *testing.T) {
	const pong, closed = "+PONG\r\n", "\x00"
	long := strings.Repeat("x", maxBulk)
	for _, c := range []struct{ name, in, out string }{
		{"ping", "*1\r\n$4\r\nPING\r\n", pong},
		{"ping says", bulks("ping", "a\r\nb"), "$4\r\na\r\nb\r\n"},
		{"ping too much", bulks("ping", "a", "b"), "-ERR wrong number of arguments for 'ping' command\r\n"},
		{"echo", bulks("ECHO", ""), "$0\r\n\r\n"},
		{"pipeline", bulks("PING") + bulks("ECHO", "a") + "PING\r\n", pong + "$1\r\na\r\n" + pong},
		{"quit", bulks("QUIT") + bulks("PING"), ok + closed},
		{"select", bulks("SELECT", "0"), ok},
		{"select 1", bulks("SELECT", "1"), "-ERR DB index is out of range\r\n"},
		{"select what", bulks("SELECT", "x"), noNumber},
		{"unknown", bulks("SET", "a", "b"), "-ERR unknown command 'SET'; COMMAND lists all commands\r\n"},
		{"unknown and odd", bulks("S\r\n\xff" + strings.Repeat("x", 100)), "-ERR unknown command 'S???" + strings.Repeat("x", 60) + "'; COMMAND lists all commands\r\n"},
		{"empty name", bulks(""), "-ERR unknown command ''; COMMAND lists all commands\r\n"},
		{"info", bulks("INFO", "server"), "$128\r\n# Server\r\nserver_name:weir\r\nweir_version:v1.2\r\nredis_mode:standalone\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n\r\n"},

		{"hello", bulks("HELLO"), hello2},
		{"hello 2", bulks("HELLO", "2"), hello2},
		{"hello 3", bulks("HELLO", "3"), hello3},
		{"hello 3 stays", bulks("HELLO", "3") + bulks("CLIENT", "GETNAME") + bulks("HELLO") + bulks("HELLO", "2") + bulks("CLIENT", "GETNAME"), hello3 + "_\r\n" + hello3 + hello2 + "$-1\r\n"},
		{"hello with all", bulks("hello", "3", "auth", "default", "secret", "setname", "me") + bulks("client", "getname"), hello3 + "$2\r\nme\r\n"},
		{"hello 4", bulks("HELLO", "4"), "-NOPROTO unsupported protocol version\r\n"},
		{"hello x", bulks("HELLO", "x"), "-ERR Protocol version is not an integer or out of range\r\n"},
		{"hello as somebody", bulks("HELLO", "3", "AUTH", "ann", "secret") + bulks("CLIENT", "GETNAME"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n$-1\r\n"},
		{"hello with half", bulks("HELLO", "3", "AUTH", "ann"), "-ERR Syntax error in HELLO option 'AUTH'\r\n"},
		{"hello with a bad name", bulks("HELLO", "3", "SETNAME", "a b") + bulks("HELLO"), "-ERR Client names cannot contain spaces, newlines or special characters.\r\n" + hello2},

		{"auth", bulks("AUTH", "secret"), "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n"},
		{"auth default", bulks("AUTH", "default", "secret"), ok},
		{"auth ann", bulks("AUTH", "ann", "secret"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"auth too much", bulks("AUTH", "a", "b", "c"), "-ERR syntax error\r\n"},

		{"client", bulks("CLIENT", "SETINFO", "LIB-NAME", "x") + bulks("CLIENT", "ID") + bulks("CLIENT", "SETNAME", "me") + bulks("CLIENT", "GETNAME"), ok + ":1\r\n" + ok + "$2\r\nme\r\n"},
		{"client setname", bulks("CLIENT", "SETNAME"), "-ERR wrong number of arguments for 'client|setname' command\r\n"},
		{"client long name", bulks("CLIENT", "SETNAME", strings.Repeat("x", 300)), "-ERR the name has 300 bytes; there may be 256\r\n"},
		{"client what", bulks("CLIENT", "KILL"), "-ERR unknown subcommand 'KILL' of CLIENT\r\n"},

		{"command count", bulks("COMMAND", "COUNT"), ":12\r\n"},
		{"command info", bulks("COMMAND", "INFO", "CL.THROTTLE", "get"), "*2\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*1\r\n+@weir\r\n*0\r\n*0\r\n*0\r\n*-1\r\n"},
		{"command info 3", bulks("HELLO", "3") + bulks("COMMAND", "INFO", "ECHO", "get"), hello3 + "*2\r\n*10\r\n$4\r\necho\r\n:2\r\n~3\r\n+loading\r\n+stale\r\n+fast\r\n:0\r\n:0\r\n:0\r\n~1\r\n+@connection\r\n*0\r\n*0\r\n*0\r\n_\r\n"},
		{"command docs", bulks("COMMAND", "DOCS", "ECHO", "get"), "*2\r\n$4\r\necho\r\n*4\r\n$7\r\nsummary\r\n$26\r\nAnswers with its argument.\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n"},
		{"command what", bulks("COMMAND", "GETKEYS"), "-ERR unknown subcommand 'GETKEYS' of COMMAND\r\n"},

		// "[limited, max_burst+1, remaining, retry, reset]".
		{"throttle", bulks("CL.THROTTLE", "a", "3", "10", "60"), lines("*5 :0 :4 :3 :-1 :6")},
		{"throttle 3", bulks("HELLO", "3") + bulks("cl.throttle", "a", "3", "10", "60"), hello3 + lines("*5 :0 :4 :3 :-1 :6")},
		{"throttle typed", "cl.throttle a 3 10 60 2\n", lines("*5 :0 :4 :2 :-1 :12")},
		{"throttle until denied", strings.Repeat(bulks("CL.THROTTLE", "a", "0", "1", "10"), 2), lines("*5 :0 :1 :0 :-1 :10") + lines("*5 :1 :1 :0 :10 :10")},
		// "retry −1 if allowed or quantity > max_burst+1"; it charges nothing.
		{"throttle never", bulks("CL.THROTTLE", "a", "3", "10", "60", "5") + bulks("CL.THROTTLE", "a", "3", "10", "60", "0"), lines("*5 :1 :4 :4 :-1 :0") + lines("*5 :0 :4 :4 :-1 :0")},
		{"throttle never ever", bulks("CL.THROTTLE", "a", "1073741823", "1073741824", "1", "99999999999999999999"), lines("*5 :1 :1073741824 :1073741824 :-1 :0")},
		// "quantity 0 peeks", also where nothing is left.
		{"throttle peek", bulks("CL.THROTTLE", "a", "0", "1", "10") + strings.Repeat(bulks("CL.THROTTLE", "a", "0", "1", "10", "0"), 2), lines("*5 :0 :1 :0 :-1 :10") + strings.Repeat(lines("*5 :0 :1 :0 :-1 :10"), 2)},
		// "retry ⌈seconds⌉ ≥ 1; reset ⌈seconds⌉ until full".
		{"throttle less than a second", strings.Repeat(bulks("CL.THROTTLE", "a", "0", "1000", "1"), 2), lines("*5 :0 :1 :0 :-1 :1") + lines("*5 :1 :1 :0 :1 :1")},
		{"throttle rounds up", bulks("CL.THROTTLE", "a", "1", "2", "3", "2") + bulks("CL.THROTTLE", "a", "1", "2", "3"), lines("*5 :0 :2 :0 :-1 :3") + lines("*5 :1 :2 :0 :2 :3")},
		{"throttle no key", bulks("CL.THROTTLE", "", "0", "1", "10"), lines("*5 :0 :1 :0 :-1 :10")},
		{"throttle other numbers, other count", bulks("CL.THROTTLE", "a", "0", "1", "10") + bulks("CL.THROTTLE", "a", "0", "1", "11"), lines("*5 :0 :1 :0 :-1 :10") + lines("*5 :0 :1 :0 :-1 :11")},
		// "negative or non-integer, count or period < 1: -ERR naming the argument".
		{"throttle -1", bulks("CL.THROTTLE", "a", "-1", "1", "10"), "-ERR max_burst must be an integer from 0 to 1073741823\r\n"},
		{"throttle too much", bulks("CL.THROTTLE", "a", "1073741824", "1", "10"), "-ERR max_burst must be an integer from 0 to 1073741823\r\n"},
		{"throttle x", bulks("CL.THROTTLE", "a", "x", "1", "10"), "-ERR max_burst must be an integer from 0 to 1073741823\r\n"},
		{"throttle count 0", bulks("CL.THROTTLE", "a", "1", "0", "10"), "-ERR count must be an integer from 1 to 1073741824\r\n"},
		{"throttle count 1.5", bulks("CL.THROTTLE", "a", "1", "1.5", "10"), "-ERR count must be an integer from 1 to 1073741824\r\n"},
		{"throttle count huge", bulks("CL.THROTTLE", "a", "1", "99999999999999999999", "10"), "-ERR count must be an integer from 1 to 1073741824\r\n"},
		{"throttle period 0", bulks("CL.THROTTLE", "a", "1", "1", "0"), "-ERR period must be an integer from 1 to 35164800\r\n"},
		{"throttle period long", bulks("CL.THROTTLE", "a", "1", "1", "35164801"), "-ERR period must be an integer from 1 to 35164800\r\n"},
		{"throttle quantity -1", bulks("CL.THROTTLE", "a", "1", "1", "1", "-1"), "-ERR quantity must be an integer from 0\r\n"},
		{"throttle quantity -huge", bulks("CL.THROTTLE", "a", "1", "1", "1", "-99999999999999999999"), "-ERR quantity must be an integer from 0\r\n"},
		{"throttle quantity empty", bulks("CL.THROTTLE", "a", "1", "1", "1", ""), "-ERR quantity must be an integer from 0\r\n"},
		{"throttle 71 years", bulks("CL.THROTTLE", "a", "99", "1", "35164800"), "-ERR max_burst is too large: (max_burst + 1) * period / count may be 71 years; take a smaller one, or a faster pace\r\n"},
		{"throttle long key", bulks("CL.THROTTLE", strings.Repeat("x", 4097), "1", "1", "1"), "-ERR key has 4097 bytes; there may be 4096\r\n"},
		{"throttle too few", bulks("CL.THROTTLE", "a", "1", "1"), "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
		{"throttle too many", bulks("CL.THROTTLE", "a", "1", "1", "1", "1", "1"), "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},

		// "the same five of the decisive limit, then its rule".
		{"check", bulks("WEIR.CHECK", "d", "1", "k", "ann"), lines("*6 :0 :10 :9 :-1 :1 $3 d/k")},
		{"check 3", bulks("HELLO", "3") + bulks("WEIR.CHECK", "d", "1", "k", "ann"), hello3 + lines("*6 :0 :10 :9 :-1 :1 $3 d/k")},
		{"check denied", bulks("WEIR.CHECK", "d", "3", "tight", "a") + bulks("WEIR.CHECK", "d", "1", "tight", "a"), lines("*6 :0 :3 :0 :-1 :3600 $9 d/tight#2") + lines("*6 :1 :3 :0 :3600 :3600 $9 d/tight#2")},
		{"check never", bulks("WEIR.CHECK", "d", "11", "k", "a"), lines("*6 :1 :10 :10 :-1 :0 $3 d/k")},
		{"check shut", bulks("WEIR.CHECK", "d", "1", "shut", "a"), lines("*6 :1 :0 :0 :-1 :0 $6 d/shut")},
		{"check permits", strings.Repeat(bulks("WEIR.CHECK", "d", "2", "permits", "a"), 2), lines("*6 :0 :2 :0 :-1 :60 $9 d/permits") + lines("*6 :1 :2 :0 :1 :60 $9 d/permits")},
		{"check nested", bulks("WEIR.CHECK", "d", "1", "path", "/a", "user", "bob"), lines("*6 :0 :10 :9 :-1 :108000 $14 d/path=/a/user")},
		{"check asks", strings.Repeat(bulks("WEIR.CHECK", "d", "0", "k", "ann"), 2), strings.Repeat(lines("*6 :0 :10 :10 :-1 :0 $3 d/k"), 2)},
		// "empty if none: [0,0,0,-1,0,""]".
		{"check nothing", bulks("WEIR.CHECK", "d", "1", "none", "ann"), "*6\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$0\r\n\r\n"},
		{"check nowhere", bulks("WEIR.CHECK", "e", "1", "k", "ann"), "*6\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$0\r\n\r\n"},
		{"check shadow", strings.Repeat(bulks("WEIR.CHECK", "d", "1", "seen", "ann"), 2), strings.Repeat("*6\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$0\r\n\r\n", 2)},
		{"check unlimited", bulks("WEIR.CHECK", "d", "1", "open", "ann"), "*6\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$0\r\n\r\n"},
		{"check odd", bulks("WEIR.CHECK", "d", "1", "k", "ann", "l"), "-ERR wrong number of arguments for 'weir.check' command\r\n"},
		{"check nobody", bulks("WEIR.CHECK", "d", "1", "k"), "-ERR wrong number of arguments for 'weir.check' command\r\n"},
		{"check cost", bulks("WEIR.CHECK", "d", "-1", "k", "v"), "-ERR cost must be an integer from 0 to 1073741824\r\n"},
		{"check no domain", bulks("WEIR.CHECK", "", "1", "k", "v"), "-ERR domain: is empty\r\n"},
		{"check no key", bulks("WEIR.CHECK", "d", "1", "", "v"), "-ERR entries[0].key: is empty\r\n"},
		{"check long", bulks("WEIR.CHECK", "d", "1", "k", strings.Repeat("x", 5000)), "-ERR entries[0].value: has 5000 bytes; there may be 4096\r\n"},
		{"check many", bulks(append([]string{"WEIR.CHECK", "d", "1"}, strings.Fields(strings.Repeat("k v ", 17))...)...), "-ERR entries: there are 17; there must be 1…16\r\n"},

		{"nothing typed", "\r\n\n  \r\n*0\r\n", ""},
		{"null arrays", "*-1\r\n*-1000\r\nPING\r\n", "+PONG\r\n"},
		{"typed with quotes", `ECHO "a \"b\"\x41\n\t\r\a\b\q"` + "\n" + `echo 'it''s' ` + "\n", "$12\r\na \"b\"A\n\t\r\a\bq\r\n-ERR Protocol error: unbalanced quotes in request\r\n" + closed},
		{"typed with single quotes", `echo 'it\'s \n'` + "\n", "$7\r\nit's \\n\r\n"},
		{"open quote", `echo "a` + "\n", "-ERR Protocol error: unbalanced quotes in request\r\n" + closed},
		{"typed too long", strings.Repeat("x", readBuffer), "-ERR Protocol error: a line is over 8192 bytes\r\n" + closed},
		{"typed too many", strings.Repeat("x ", maxWords+1) + "\n", "-ERR Protocol error: a command may have 1024 words\r\n" + closed},
		{"garbage", "\x16\x03\x01\x00\x05\n", "-ERR unknown command '???'; COMMAND lists all commands\r\n"},
		{"http", "POST / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE a 1 1 1\r\n", "-ERR this is the Redis listener, and that is HTTP\r\n" + closed},

		{"http without a body", "GET / HTTP/1.1\r\nhost: x\r\n\r\n", "-ERR unknown command 'GET'; COMMAND lists all commands\r\n-ERR this is the Redis listener, and that is HTTP\r\n" + closed},

		{"no length", "*\r\n", "-ERR Protocol error: invalid multibulk length\r\n" + closed},
		{"negative length, odd", "*-01\r\n", "-ERR Protocol error: invalid multibulk length\r\n" + closed},
		{"negative nothing", "*-0\r\n", "-ERR Protocol error: invalid multibulk length\r\n" + closed},
		{"odd length", "*01\r\n", "-ERR Protocol error: invalid multibulk length\r\n" + closed},
		{"too many words", "*1025\r\n", "-ERR Protocol error: invalid multibulk length: a command may have 1024 words\r\n" + closed},
		{"huge length", "*99999999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length: a command may have 1024 words\r\n" + closed},
		{"negative bulk", "*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n" + closed},
		{"huge bulk", "*1\r\n$65537\r\n", "-ERR Protocol error: invalid bulk length: a word may have 65536 bytes\r\n" + closed},
		{"large bulk", bulks("ECHO", long), "$65536\r\n" + long + "\r\n"},
		{"large command", bulks("x", long, long, long, long), "-ERR Protocol error: a command may have 262144 bytes\r\n" + closed},
		{"nested", "*1\r\n*1\r\n$4\r\nPING\r\n", "-ERR Protocol error: expected '$', got '*'\r\n" + closed},
		{"integer", "*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n" + closed},
		{"nothing", "*1\r\n\r\n", "-ERR Protocol error: expected '$', got an empty line\r\n" + closed},
		{"bulk too long", "*1\r\n$3\r\nPING\r\n", "-ERR Protocol error: a word is longer than it was said to be\r\n" + closed},
		{"half", "*2\r\n$4\r\nECHO\r\n$100\r\n", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, most := range []int{1 << 20, 7, 1} {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(t, Options{Version: "v1.2"})
					client := &script{in: []byte(c.in + "PING\r\n"), most: most}
					s.serve(t.Context(), client)
					want, isClosed := strings.CutSuffix(c.out, closed)
					if !isClosed {
						want += pong
					}
					if got := client.out.String(); got != want {
						t.Errorf("%d at a time:\n got %.300q\nwant %.300q", most, got, want)
					}
				})
			}
		})
	}
}

// TestThrottleInTime: the answers as time goes by.
func TestThrottleInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		for _, step := range []struct {
			wait     time.Duration
			quantity string
			want     string
		}{
			{0, "3", "*5 :0 :3 :0 :-1 :30"},
			{0, "1", "*5 :1 :3 :0 :10 :30"},
			{500 * time.Millisecond, "1", "*5 :1 :3 :0 :10 :30"}, // rounded up
			{8500 * time.Millisecond, "1", "*5 :1 :3 :0 :1 :21"},
			{999999 * time.Microsecond, "1", "*5 :1 :3 :0 :1 :21"},
			{time.Microsecond, "1", "*5 :0 :3 :0 :-1 :30"},
			{time.Minute, "0", "*5 :0 :3 :3 :-1 :0"},
		} {
			time.Sleep(step.wait)
			if got := say(t, s, bulks("CL.THROTTLE", "k", "2", "6", "60", step.quantity)); got != lines(step.want) {
				t.Errorf("after %v, %s: %q", step.wait, step.quantity, got)
			}
		}
	})
}

// TestOwnKeySpace: what CL.THROTTLE counts has nothing to do with any rule.
func TestOwnKeySpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		say(t, s, bulks("WEIR.CHECK", "d", "10", "k", "ann"))
		if got := say(t, s, bulks("CL.THROTTLE", "ann", "9", "5", "1")); got != lines("*5 :0 :10 :9 :-1 :1") {
			t.Errorf("%q", got)
		}
	})
	for _, r := range newLimiter(t, memstore.New(memstore.Options{})).Set().Rules() {
		if place := r.State("").Rule; strings.Contains(place, " ") {
			t.Errorf("%q could be a limit of CL.THROTTLE", place)
		}
	}
}

// TestCheckIsTheRules: WEIR.CHECK answers what rules.Limiter.Check decides.
func TestCheckIsTheRules(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := weir.InstantOf(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
		newStore := func() weir.Store { return timed{memstore.New(memstore.Options{}), &now} }
		s, model := New(newLimiter(t, newStore()), newStore(), Options{}), newLimiter(t, newStore())
		for range rapid.IntRange(1, 20).Draw(r, "commands") {
			now += weir.Instant(rapid.Int64Range(0, int64(time.Minute/time.Microsecond)).Draw(r, "wait"))
			domain := rapid.SampledFrom([]string{"d", "d", "d", "e", ""}).Draw(r, "domain")
			cost := rapid.Int64Range(0, 12).Draw(r, "cost")
			words := []string{"WEIR.CHECK", domain, fmt.Sprint(cost)}
			var entries []rules.Entry
			for range rapid.IntRange(1, 2).Draw(r, "entries") {
				e := rules.Entry{
					Key:   rapid.SampledFrom([]string{"k", "tight", "seen", "open", "shut", "permits", "path", "user", ""}).Draw(r, "key"),
					Value: rapid.SampledFrom([]string{"", "ann", "/a", "x\r\ny"}).Draw(r, "value"),
				}
				entries, words = append(entries, e), append(words, e.Key, e.Value)
			}
			a, err := model.Check(t.Context(), &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{{Entries: entries, Cost: cost}}})
			got := say(t, s, bulks(words...))
			if err != nil {
				if !strings.HasPrefix(got, "-ERR ") {
					r.Fatalf("%q, want %v", got, err)
				}
				continue
			}
			if want := expected(a); got != want {
				r.Fatalf("%q: %q, want %q", words, got, want)
			}
		}
	})
}

// timed is a store at a time of its own.
type timed struct {
	*memstore.Store

	now *weir.Instant
}

func (s timed) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeAt(*s.now, asks, out)
}

// expected is an answer in the words of the contract.
func expected(a *rules.Answer) string {
	if a.Decisive < 0 {
		return "*6\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$0\r\n\r\n"
	}
	d := a.Decisions[a.Decisive]
	up := func(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
	spec := d.Rule.Limit.Spec()
	limit, limited, retry := spec.Count, 0, -1
	if spec.Burst > 0 {
		limit = spec.Burst
	}
	if !a.Allowed {
		limited = 1
		if after, ok := a.RetryAfter(); ok {
			retry = max(up(after), 1)
		}
	}
	return fmt.Sprintf("*6\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n$%d\r\n%s\r\n", limited, limit, d.Remaining, retry, up(d.ResetAfter), len(d.Rule.Name), d.Rule.Name)
}

// TestPipeline: a thousand commands at once are answered in order, in few writes.
func TestPipeline(t *testing.T) {
	s := newServer(t, Options{})
	var in, want strings.Builder
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		in.WriteString(bulks("CL.THROTTLE", key, "3", "10", "60") + bulks("ECHO", key))
		want.WriteString(lines("*5 :0 :4 :3 :-1 :6") + fmt.Sprintf("$%d\r\n%s\r\n", len(key), key))
	}
	c := &script{in: []byte(in.String()), most: 1 << 20}
	s.serve(t.Context(), c)
	if c.out.String() != want.String() {
		t.Errorf("%.200q", c.out.String())
	}
	if most := in.Len()/readBuffer + want.Len()/writeBuffer + 2; c.writes > most {
		t.Errorf("%d writes, want at most %d", c.writes, most)
	}
}

// TestHalfPipeline: the answers to what is there go out before the rest of a command
// is waited for.
func TestHalfPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, done := open(t, newServer(t, Options{}))
		write(t, client, bulks("PING")+"*2\r\n$4\r\nEC")
		expect(t, client, "+PONG\r\n")
		write(t, client, "HO\r\n$1\r\na\r\n")
		expect(t, client, "$1\r\na\r\n")
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// open connects a client by a pipe, which has no buffer: what is not read is not
// written.
func open(t *testing.T, s *Server) (client net.Conn, done chan struct{}) {
	t.Helper()
	client, server := net.Pipe()
	done = make(chan struct{})
	s.conns.Start(server, func(nc net.Conn) { s.serve(t.Context(), nc) })
	go func() {
		s.conns.Wait()
		close(done)
	}()
	return client, done
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q %v, want %q", got, err, want)
	}
}

// TestImpatience: connections that do nothing, too little, or do not read.
func TestImpatience(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		after         time.Duration
		bound         Bound
	}{
		{"idle", "", "", idle, BoundIdle},
		{"idle after a command", "PING\r\n", "+PONG\r\n", idle, BoundIdle},
		{"half", "*1\r\n$4\r\nPI", "-ERR Protocol error: the command did not end within 15s\r\n", slow, BoundSlow},
		{"half a line", "PING", "-ERR Protocol error: the command did not end within 15s\r\n", slow, BoundSlow},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reached []Bound
				start := time.Now()
				client, done := open(t, newServer(t, Options{Reached: func(b Bound) { reached = append(reached, b) }}))
				write(t, client, c.in)
				got, err := io.ReadAll(client)
				if err != nil || string(got) != c.out {
					t.Errorf("%q %v", got, err)
				}
				<-done
				if took := time.Since(start) - c.after; took < 0 || took > linger || len(reached) != 1 || reached[0] != c.bound {
					t.Errorf("%v after %v", reached, time.Since(start))
				}
			})
		})
	}
	t.Run("drop by drop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, done := open(t, newServer(t, Options{}))
			go func() { _, _ = io.Copy(io.Discard, client) }()
			start := time.Now()
			for {
				if _, err := io.WriteString(client, "x"); err != nil {
					break
				}
				time.Sleep(time.Second)
			}
			<-done
			if took := time.Since(start); took > slow+2*time.Second {
				t.Error(took)
			}
		})
	})
	t.Run("does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var reached []Bound
			var commands int
			client, done := open(t, newServer(t, Options{
				Reached: func(b Bound) { reached = append(reached, b) },
				Observe: func(string, bool, time.Duration) { commands++ },
			}))
			start := time.Now()
			for {
				if _, err := io.WriteString(client, strings.Repeat("PING\r\n", 1000)); err != nil {
					break
				}
			}
			<-done
			if took := time.Since(start); took != stuck || len(reached) != 1 || reached[0] != BoundStuck || commands > 2*readBuffer {
				t.Errorf("%v, %v, %d commands", took, reached, commands)
			}
		})
	})
}

// TestBounds: each bound is told.
func TestBounds(t *testing.T) {
	for in, want := range map[string]Bound{
		"*1\r\n$65537\r\n":                  BoundBulk,
		"*1025\r\n":                         BoundWords,
		strings.Repeat("x ", 1025) + "\r\n": BoundWords,
		bulks("", strings.Repeat("x", maxBulk), strings.Repeat("x", maxBulk), strings.Repeat("x", maxBulk), strings.Repeat("x", maxBulk), "x"): BoundRequest,
		strings.Repeat("x", readBuffer+1): BoundLine,
		"*" + strings.Repeat("1", 1<<20):  BoundLine,
	} {
		var reached []Bound
		var calls []string
		say(t, newServer(t, Options{
			Reached: func(b Bound) { reached = append(reached, b) },
			Observe: func(command string, ok bool, _ time.Duration) { calls = append(calls, fmt.Sprint(command, ok)) },
		}), in)
		if len(reached) != 1 || reached[0] != want || len(calls) != 1 || calls[0] != "protocolfalse" {
			t.Errorf("%.20q: %v %v, want %v", in, reached, calls, want)
		}
	}
}

// TestManyLimits: a client may have one 64th of all limits in use and no more, until
// some have recovered, and others still have theirs.
func TestManyLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached int
		who := "one"
		s := newServer(t, Options{Reached: func(Bound) { reached++ }, Client: func(string) string { return who }})
		var in strings.Builder
		for i := range rules.MaxOverrides / 64 {
			in.WriteString(bulks("CL.THROTTLE", "k", "0", "1", fmt.Sprint(100+i)))
		}
		if got := say(t, s, in.String()); strings.Contains(got, "ERR") {
			t.Fatal("not even the first")
		}
		one := bulks("CL.THROTTLE", "k", "0", "1", "99")
		full := "-ERR " + rules.ErrClientOverrides.Error() + "\r\n"
		if got := say(t, s, one+one); got != full+full || reached != 2 {
			t.Errorf("%q, told %d times", got, reached)
		}
		if got := say(t, s, bulks("CL.THROTTLE", "k", "0", "1", "100")); got != lines("*5 :1 :1 :0 :100 :100") {
			t.Errorf("one that is known: %q", got)
		}
		who = "other"
		if got := say(t, s, bulks("CL.THROTTLE", "k", "0", "1", "98")); got != lines("*5 :0 :1 :0 :-1 :98") {
			t.Errorf("a limit of somebody else: %q", got)
		}
		who = "one"
		time.Sleep(97999999 * time.Microsecond)
		if got := say(t, s, one); got != full {
			t.Errorf("%q", got)
		}
		time.Sleep(2*time.Second + time.Microsecond)
		if got := say(t, s, one+one); got != lines("*5 :0 :1 :0 :-1 :99")+lines("*5 :1 :1 :0 :99 :99") {
			t.Errorf("%q", got)
		}
	})
}

// failing decides nothing.
type failing struct{ weir.Store }

func (failing) Take(context.Context, []weir.Ask, []weir.Decision) error { return errors.New("no disk") }

func (failing) Check(context.Context, *rules.Request) (*rules.Answer, error) {
	return nil, errors.New("no disk")
}

// panicking has a bug.
type panicking struct{ failing }

func (panicking) Check(context.Context, *rules.Request) (*rules.Answer, error) { panic("a bug") }

// TestTrouble: what is the daemon's own fault is said, and not why.
func TestTrouble(t *testing.T) {
	var panics int
	o := Options{Panicked: func() { panics++ }}
	throttle, check := bulks("CL.THROTTLE", "k", "1", "1", "1"), bulks("WEIR.CHECK", "d", "1", "k", "v")
	const cannot = "-ERR the daemon could not decide; its log says why\r\n"
	if got := say(t, New(failing{}, failing{}, o), throttle+check); got != cannot+cannot {
		t.Errorf("%q", got)
	}
	if got := say(t, New(panicking{}, failing{}, o), "PING\r\n"+check+"PING\r\n"); got != "+PONG\r\n-ERR this is a bug of the daemon; its log says more\r\n" || panics != 1 {
		t.Errorf("%q, %d panics", got, panics)
	}
	none := rules.NewLimiter(memstore.New(memstore.Options{}), nil)
	if got := say(t, New(none, failing{}, o), check); got != "-ERR no rules are loaded yet; try again when /readyz says so\r\n" {
		t.Errorf("%q", got)
	}
}

// TestDecided: what is decided is counted, and what only asks is not.
func TestDecided(t *testing.T) {
	var counts [3]int
	var calls []string
	s := newServer(t, Options{
		Decided: func(_ string, d *weir.Decision) { counts[d.Outcome]++ },
		Observe: func(command string, ok bool, _ time.Duration) { calls = append(calls, fmt.Sprint(command, " ", ok)) },
	})
	for _, quantity := range []string{"0", "2", "1", "1", "3", "x"} {
		say(t, s, bulks("CL.THROTTLE", "k", "1", "1", "1000", quantity))
	}
	if counts != [3]int{weir.Denied: 2, weir.Allowed: 1, weir.Impossible: 1} {
		t.Error(counts)
	}
	say(t, s, "ping\r\nnone\r\n")
	if got := fmt.Sprint(calls[5:]); got != "[cl.throttle false ping true other false]" {
		t.Error(got)
	}
}

// FuzzServe: whatever is said, nothing panics, and what is answered is RESP of a
// bounded size.
func FuzzServe(f *testing.F) {
	for _, in := range []string{
		bulks("PING") + bulks("HELLO", "3") + bulks("COMMAND") + bulks("COMMAND", "DOCS"),
		bulks("CL.THROTTLE", "k", "1", "1", "1", "1") + bulks("WEIR.CHECK", "d", "1", "k", "v"),
		"echo \"a\\x00\" 'b'\r\n*1\r\n$-1\r\n", "*3\r\n$1\r\n", "*1\r\n*1\r\n", "INFO\nQUIT\n",
	} {
		f.Add([]byte(in), byte(0))
		f.Add([]byte(in), byte(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, most byte) {
		s := newServer(t, Options{Panicked: func() { t.Error("panic") }})
		c := &script{in: bytes.Clone(in), most: int(most) + 1}
		s.serve(t.Context(), c)
		// The longest answer to the shortest command is that to COMMAND.
		if n := c.out.Len(); n > 1<<10+300*len(in) {
			t.Errorf("%d bytes for %d", n, len(in))
		}
		for out := c.out.Bytes(); len(out) > 0; {
			n := value(out)
			if n == 0 {
				t.Fatalf("%q is not RESP", out)
			}
			out = out[n:]
		}
	})
}

// value is how long the value is that b begins with; 0 when it is none.
func value(b []byte) int {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 1 {
		return 0
	}
	size, more := end+2, 0
	var n int
	if strings.ContainsRune(":$=*~%", rune(b[0])) {
		if _, err := fmt.Sscan(string(b[1:end]), &n); err != nil {
			return 0
		}
	}
	switch b[0] {
	case '+', '-', ':', '_':
		return size
	case '$', '=':
		if n < 0 {
			return size
		}
		if len(b) < size+n+2 || string(b[size+n:size+n+2]) != "\r\n" {
			return 0
		}
		return size + n + 2
	case '%':
		more = 2 * n
	case '*', '~':
		more = n
	default:
		return 0
	}
	for range more {
		n := value(b[size:])
		if n == 0 {
			return 0
		}
		size += n
	}
	return size
}

// endless is a client that sends the same for ever.
type endless struct {
	script

	text []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func (e *endless) Write(p []byte) (int, error) { return len(p), nil }

func benchmark(b *testing.B, command func(i int) string) {
	var text strings.Builder
	for i := range 1000 {
		text.WriteString(command(i))
	}
	s := newServer(b, Options{})
	c := s.conn(&endless{text: []byte(text.String())})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.read(); err != nil {
			b.Fatal(err)
		}
		c.observe(c.answer(b.Context()))
	}
}

// BenchmarkThrottle is one of many pipelined CL.THROTTLE about a thousand keys,
// from the client's bytes to those of the answer.
func BenchmarkThrottle(b *testing.B) {
	benchmark(b, func(i int) string { return bulks("CL.THROTTLE", fmt.Sprint("user:", i), "99", "100000", "1") })
}

// BenchmarkCheck is the same with WEIR.CHECK.
func BenchmarkCheck(b *testing.B) {
	benchmark(b, func(i int) string { return bulks("WEIR.CHECK", "d", "1", "k", fmt.Sprint("user:", i)) })
}
