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
type script struct{ text, name string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// exec runs the script, in a pipeline with whatever else is sent, or apart: on a
// connection that is its own for the time. There the caller's goroutine writes and
// reads itself, which is quicker for few calls at a time.
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
	r := client.Do(ctx, command("EVALSHA", s.name))
	if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
		r = client.Do(ctx, command("EVAL", s.text))
	}
	return r
}
