package redisstore

import (
	"context"
	"crypto/sha1" // it names scripts in Redis, and protects nothing
	"encoding/hex"
	"strconv"

	"github.com/redis/rueidis"
)

// script is one that Redis runs by its name, and is told again when it has forgotten it. The name
// is the hash of the text: nodes with different versions of Weir never run each other's scripts.
//
// A script never changes, and goroutines share it without a lock. A new version of Weir has
// scripts of other names, so daemons may be replaced one by one while all of them charge the same
// counts: a record's form, and not its script, is what versions have to agree on.
type script struct{ text, name string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// exec runs the script, in a pipeline with whatever else is sent, or apart: on a
// connection that is its own for the time. There the caller's goroutine writes and
// reads itself, which is quicker for few calls at a time.
//
// rueidis keeps a pool of connections for commands that it is told may block. No script of ours
// blocks; it is told so to have one of these connections. There are never many at once: each lane
// has at most two calls on their way, and only lanes run apart.
func (s *script) exec(ctx context.Context, client rueidis.Client, apart bool, keys, args []string) rueidis.RedisResult {
	command := func(verb, of string) rueidis.Completed {
		c := client.B().Arbitrary(verb, of, strconv.Itoa(len(keys))).Keys(keys...).Args(args...)
		if apart {
			return c.Blocking()
		}
		return c.Build()
	}
	// A server that was restarted, or became primary, does not know the script. It has run nothing
	// then, so that to ask again is safe.
	//
	// NOSCRIPT is the server's own answer to this very command, so nothing was run by it. Every
	// other error leaves open whether the script ran, and the call is not sent again.
	r := client.Do(ctx, command("EVALSHA", s.name))
	if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
		r = client.Do(ctx, command("EVAL", s.text))
	}
	return r
}
