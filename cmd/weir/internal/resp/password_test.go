package resp

import (
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const secret = "0123456789abcdef"

func guarded(t testing.TB) *Server {
	t.Helper()
	return newServer(t, Options{Version: "v1.2", Password: func(word []byte) bool { return string(word) == secret }})
}

// TestPassword: who has not said it gets nothing but what Redis 7 gives, in its
// words.
func TestPassword(t *testing.T) {
	const (
		noauth    = "-NOAUTH Authentication required.\r\n"
		wrong     = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		noHello   = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n"
		pong      = "+PONG\r\n"
		throttled = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n"
	)
	in := bulks("AUTH", secret)
	for _, c := range []struct{ name, in, out string }{
		{"ping", bulks("PING"), noauth},
		{"all that there is", bulks("CL.THROTTLE", "k", "0", "1", "1") + bulks("WEIR.CHECK", "d", "1", "k", "v") + bulks("CLIENT", "ID") + bulks("COMMAND") + bulks("ECHO", "a") + bulks("INFO") + bulks("SELECT", "0"), strings.Repeat(noauth, 7)},
		{"what there is not", bulks("GET", "a"), "-ERR unknown command 'GET'; COMMAND lists all commands\r\n"},
		{"quit", bulks("QUIT"), ok},
		{"reset", bulks("RESET") + bulks("PING"), "+RESET\r\n" + noauth},
		{"auth", in + bulks("PING") + bulks("CL.THROTTLE", "k", "0", "1", "1"), ok + pong + throttled},
		{"auth default", bulks("AUTH", "default", secret) + bulks("PING"), ok + pong},
		{"auth wrong", bulks("AUTH", secret+"0") + bulks("AUTH", "default", "") + bulks("PING"), wrong + wrong + noauth},
		{"auth ann", bulks("AUTH", "ann", secret) + bulks("PING"), wrong + noauth},
		{"auth too much", bulks("AUTH", "default", secret, "x") + bulks("PING"), "-ERR syntax error\r\n" + noauth},
		{"a wrong one later", in + bulks("AUTH", "wrong") + bulks("PING"), ok + wrong + pong},
		{"hello", bulks("HELLO") + bulks("HELLO", "3"), noHello + noHello},
		{"hello 4", bulks("HELLO", "4"), "-NOPROTO unsupported protocol version\r\n"},
		{"hello auth", bulks("HELLO", "3", "AUTH", "default", secret) + bulks("PING"), hello3 + pong},
		{"hello auth wrong", bulks("HELLO", "3", "AUTH", "default", "x") + bulks("HELLO", "3", "AUTH", "ann", secret) + bulks("PING"), wrong + wrong + noauth},
		{"hello setname", bulks("HELLO", "3", "SETNAME", "me") + in + bulks("CLIENT", "GETNAME"), noHello + ok + "$-1\r\n"},
		{"reset forgets", bulks("HELLO", "3", "AUTH", "default", secret) + bulks("CLIENT", "SETNAME", "me") + bulks("RESET") + bulks("PING") + in + bulks("CLIENT", "GETNAME"), hello3 + ok + "+RESET\r\n" + noauth + ok + "$-1\r\n"},
		{"many words", "*11\r\n$4\r\nPING\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"},
		{"a long word", "*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"},
		{"many words later", in + bulks("PING", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"), ok + "-ERR wrong number of arguments for 'ping' command\r\n"},
	} {
		if got := say(t, guarded(t), c.in); got != c.out {
			t.Errorf("%s: %q, want %q", c.name, got, c.out)
		}
	}
	if got := say(t, newServer(t, Options{}), bulks("RESET")+bulks("PING")); got != "+RESET\r\n+PONG\r\n" {
		t.Error("without a password:", got)
	}
}

// TestStrangers: who does not say the password in time goes, however much else
// he says; who has said it stays.
func TestStrangers(t *testing.T) {
	for name, says := range map[string]string{"nothing": "", "something": "PING\r\n", "reset": "RESET\r\n", "half a word": "*1\r\n$4\r\nPI"} {
		synctest.Test(t, func(t *testing.T) {
			s := guarded(t)
			var reached []Bound
			s.options.Reached = func(b Bound) { reached = append(reached, b) }
			client, done := open(t, s)
			go func() { _, _ = io.Copy(io.Discard, client) }()
			start := time.Now()
			var writes sync.WaitGroup
			defer writes.Wait()
			writes.Go(func() {
				for says != "" && time.Since(start) < 2*stranger {
					if _, err := io.WriteString(client, says); err != nil || !strings.HasSuffix(says, "\r\n") {
						return
					}
					time.Sleep(time.Second)
				}
			})
			<-done
			if took := time.Since(start); took != stranger || len(reached) != 1 || reached[0] != BoundStranger {
				t.Errorf("%s: %v after %v", name, reached, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		client, done := open(t, guarded(t))
		write(t, client, bulks("AUTH", secret))
		expect(t, client, ok)
		time.Sleep(idle - time.Second)
		write(t, client, bulks("PING"))
		expect(t, client, "+PONG\r\n")
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// TestRedisCLIWithPassword: the stock client says it as it does to Redis.
func TestRedisCLIWithPassword(t *testing.T) {
	path := tool(t, "redis-cli")
	host, port := listenTo(t, guarded(t))
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), path, append([]string{"-h", host, "-p", port, "--no-auth-warning"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for args, want := range map[string]string{
		"PING":                                  "NOAUTH Authentication required.",
		"-a " + secret + " PING":                "PONG",
		"-3 -a " + secret + " PING":             "PONG",
		"--user default -a " + secret + " PING": "PONG",
	} {
		if got := run(strings.Fields(args)...); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	if got := run("-a", "wrong", "PING"); !strings.Contains(got, "AUTH failed: WRONGPASS") || !strings.HasSuffix(got, "NOAUTH Authentication required.") {
		t.Errorf("%q", got)
	}
}

// TestPasswordIsRotated: each connection is asked as the password is by then.
func TestPasswordIsRotated(t *testing.T) {
	now := "first password"
	s := newServer(t, Options{Password: func(word []byte) bool { return string(word) == now }})
	var conns []net.Conn
	for _, word := range []string{"first password", "second password"} {
		now = word
		c, _ := open(t, s)
		defer c.Close()
		write(t, c, bulks("AUTH", word))
		expect(t, c, ok)
		conns = append(conns, c)
	}
	for _, c := range conns { // those who are in stay in
		write(t, c, bulks("PING"))
		expect(t, c, "+PONG\r\n")
	}
}
