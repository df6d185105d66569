package resp

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// command is one that the listener answers. Its fields are those that COMMAND tells.
type command struct {
	name    string
	words   int // how many, with its name; −n is n at least
	most    int // when words is negative: how many at most; 0 is any number
	flags   []string
	key     int // where its key is; 0 for none
	group   string
	summary string
	answer  func(*conn, context.Context)
}

// noAuth is the flag of commands that need no password.
const noAuth = "no_auth"

// table lists all commands.
func table() map[string]*command {
	plain := func(f func(*conn)) func(*conn, context.Context) {
		return func(c *conn, _ context.Context) { f(c) }
	}
	fast, always := []string{"fast"}, []string{"loading", "stale", "fast"}
	anyone := append(slices.Clone(always), noAuth)
	known := map[string]*command{}
	for _, k := range []*command{
		{"cl.throttle", -5, 6, []string{"write", "fast"}, 1, "weir", "Takes from the limit of a key, as redis-cell does.", (*conn).throttle},
		{"weir.check", -5, 0, []string{"write", "fast"}, 0, "weir", "Asks the rules of a domain.", (*conn).check},

		{"auth", -2, 0, anyone, 0, "connection", "Authenticates the connection.", plain((*conn).auth)},
		{"client", -2, 0, fast, 0, "connection", "Names the connection.", plain((*conn).client)},
		{"command", -1, 0, always, 0, "server", "Tells of the commands.", plain((*conn).command)},
		{"echo", 2, 0, always, 0, "connection", "Answers with its argument.", plain((*conn).echo)},
		{"hello", -1, 0, anyone, 0, "connection", "Chooses the version of the protocol.", plain((*conn).hello)},
		{"info", -1, 0, always, 0, "server", "Tells of the daemon.", plain((*conn).info)},
		{"ping", -1, 2, always, 0, "connection", "Answers.", plain((*conn).ping)},
		{"quit", -1, 0, anyone, 0, "connection", "Closes the connection.", plain((*conn).quit)},
		{"reset", 1, 0, anyone, 0, "connection", "Makes the connection as it was at first.", plain((*conn).reset)},
		{"select", 2, 0, always, 0, "connection", "Chooses a database; there is 0.", plain((*conn).choose)},
	} {
		known[k.name] = k
	}
	return known
}

// answer answers the command that was read, and says which one it was.
func (c *conn) answer(ctx context.Context) (name string) {
	var room [16]byte
	k := c.server.commands[string(appendLower(room[:0], c.words[0]))]
	switch n := len(c.words); {
	case k == nil:
		c.unknown()
		return other
	case k.words >= 0 && n != k.words, n < -k.words, k.most > 0 && n > k.most:
		c.wrongNumber(k.name)
	case c.stranger && !slices.Contains(k.flags, noAuth):
		c.fail("NOAUTH Authentication required.")
	default:
		k.answer(c, ctx)
	}
	return k.name
}

// appendLower appends a word in lower case, if it is short enough for a command.
func appendLower(b, word []byte) []byte {
	if len(word) > cap(b) {
		return b
	}
	for _, c := range word {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// is is whether a word is a lower-case name, in any case.
func is(word []byte, name string) bool {
	return len(word) == len(name) && strings.EqualFold(string(word), name)
}

// unknown answers a command that there is not. A command that looks like HTTP ends the connection:
// a web page may make a browser send it, with commands in its body.
func (c *conn) unknown() {
	name := c.words[0]
	if is(name, "post") || is(name, "host:") {
		c.fail("ERR this is the Redis listener, and that is HTTP")
		c.last = true
		return
	}
	c.fail("ERR unknown command " + shown(name) + "; COMMAND lists all commands")
}

// shown is a word of a client's for an error.
func shown(word []byte) string {
	const most = 64
	return "'" + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(word[:min(len(word), most)])) + "'"
}

func (c *conn) wrongNumber(name string) {
	c.fail("ERR wrong number of arguments for '" + name + "' command")
}

// noSuch answers a subcommand that there is not.
func (c *conn) noSuch(of string) {
	c.fail("ERR unknown subcommand " + shown(c.words[1]) + " of " + of)
}

func (c *conn) ping() {
	if len(c.words) == 1 {
		c.simple("PONG")
		return
	}
	c.echo()
}

func (c *conn) echo() { c.bulk(string(c.words[1])) }

func (c *conn) quit() {
	c.simple("OK")
	c.last = true
}

func (c *conn) choose() {
	switch n, err := strconv.Atoi(string(c.words[1])); {
	case err != nil:
		c.fail("ERR value is not an integer or out of range")
	case n != 0:
		c.fail("ERR DB index is out of range")
	default:
		c.simple("OK")
	}
}

// reset is for a connection that another client goes on with. A client that has not sent the
// password gains no time by it.
func (c *conn) reset() {
	c.proto, c.name = 2, ""
	if !c.stranger {
		c.estrange()
	}
	c.simple("RESET")
}

// auth answers as Redis does, whose user default has a password or none.
func (c *conn) auth() {
	switch n := len(c.words); {
	case n > 3:
		c.fail("ERR syntax error")
	case n == 2 && c.server.options.Password == nil:
		c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case n == 2 && c.login(defaultUser, c.words[1]), n == 3 && c.login(string(c.words[1]), c.words[2]):
		c.simple("OK")
	}
}

// defaultUser is the only one.
const defaultUser = "default"

// login answers with an error for a user that there is not, or another password.
func (c *conn) login(user string, password []byte) bool {
	if right := c.server.options.Password; user == defaultUser && (right == nil || right(password)) {
		c.stranger = false
		return true
	}
	c.fail("WRONGPASS invalid username-password pair or user is disabled.")
	return false
}

// hello is HELLO [2|3 [AUTH user password] [SETNAME name]].
func (c *conn) hello() {
	proto, name := c.proto, c.name
	options := c.words[1:]
	if len(options) > 0 {
		n, err := strconv.Atoi(string(options[0]))
		switch {
		case err != nil:
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		case n != 2 && n != 3:
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		proto, options = n, options[1:]
	}
	for len(options) > 0 {
		switch {
		case is(options[0], "auth") && len(options) > 2:
			if !c.login(string(options[1]), options[2]) {
				return
			}
			options = options[3:]
		case is(options[0], "setname") && len(options) > 1:
			if !c.nameable(options[1]) {
				return
			}
			name, options = string(options[1]), options[2:]
		default:
			c.fail("ERR Syntax error in HELLO option " + shown(options[0]))
			return
		}
	}
	if c.stranger {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option " +
			"can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.proto, c.name = proto, name
	c.pairs(7)
	c.bulks("server", "weir", "version", c.server.options.Version, "proto")
	c.integer(int64(proto))
	c.bulk("id")
	c.integer(c.id)
	c.bulks("mode", "standalone", "role", "master", "modules")
	c.array(0)
}

// nameable answers with an error for what can't be the name of a connection.
func (c *conn) nameable(name []byte) bool {
	switch {
	case len(name) > maxName:
		c.fail(fmt.Sprintf("ERR the name has %d bytes; there may be %d", len(name), maxName))
	case bytes.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }):
		c.fail("ERR Client names cannot contain spaces, newlines or special characters.")
	default:
		return true
	}
	return false
}

// client is what clients say of themselves when they connect.
func (c *conn) client() {
	n := len(c.words)
	wants := func(words int) bool {
		if n != words {
			c.wrongNumber("client|" + string(appendLower(make([]byte, 0, 16), c.words[1])))
		}
		return n == words
	}
	switch sub := c.words[1]; {
	case is(sub, "setinfo"):
		if wants(4) {
			c.simple("OK") // nobody would read it
		}
	case is(sub, "setname"):
		if wants(3) && c.nameable(c.words[2]) {
			c.name = string(c.words[2])
			c.simple("OK")
		}
	case is(sub, "getname"):
		if !wants(2) {
			return
		}
		if c.name == "" {
			c.null()
			return
		}
		c.bulk(c.name)
	case is(sub, "id"):
		if wants(2) {
			c.integer(c.id)
		}
	default:
		c.noSuch("CLIENT")
	}
}

// info is as much as clients need that wait until a server is ready.
func (c *conn) info() {
	c.text("# Server\r\nserver_name:weir\r\nweir_version:" + c.server.options.Version +
		"\r\nredis_mode:standalone\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n")
}

// command is COMMAND [COUNT | LIST | INFO [name …] | DOCS [name …]].
func (c *conn) command() {
	known := c.server.commands
	all := slices.Sorted(maps.Keys(known))
	names := all
	if len(c.words) > 2 {
		names = nil
		for _, word := range c.words[2:] {
			names = append(names, strings.ToLower(string(word)))
		}
	}
	switch {
	case len(c.words) == 1, is(c.words[1], "info"):
		c.array(len(names))
		for _, name := range names {
			c.describe(known[name])
		}
	case is(c.words[1], "docs"):
		names = slices.DeleteFunc(names, func(name string) bool { return known[name] == nil })
		c.pairs(len(names))
		for _, name := range names {
			c.document(known[name])
		}
	case is(c.words[1], "count"):
		c.integer(int64(len(all)))
	case is(c.words[1], "list"):
		c.array(len(all))
		c.bulks(all...)
	default:
		c.noSuch("COMMAND")
	}
}

// describe is an entry of COMMAND INFO.
func (c *conn) describe(k *command) {
	if k == nil {
		c.nullArray()
		return
	}
	c.array(10)
	c.bulk(k.name)
	c.integer(int64(k.words))
	c.set(len(k.flags))
	for _, flag := range k.flags {
		c.simple(flag)
	}
	first := int64(k.key)
	c.integer(first)
	c.integer(first)
	c.integer(min(first, 1)) // from key to key
	c.set(1)
	c.simple("@" + k.group)
	c.array(0) // tips
	c.array(0) // where keys are, in another form
	c.array(0) // subcommands
}

// document is an entry of COMMAND DOCS.
func (c *conn) document(k *command) {
	c.bulk(k.name)
	c.pairs(2)
	c.bulks("summary", k.summary, "group", k.group)
}
