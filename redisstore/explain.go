package redisstore

import (
	"fmt"
	"strings"

	"github.com/weir-limit/weir/internal/record"
)

const rights = "let the user run HELLO, AUTH, PING, EVALSHA, EVAL, GET, SET and TIME on the keys of Weir: ACL SETUSER"

const wrongType = "WRONGTYPE" // of a key: the server is there

// remedies say what to do about the errors of a server, by what they say.
//
// The first that matches counts, so what is particular stands before what is general. The texts
// are those of Redis and of the network; where a new version words an error anew, only the remedy
// is lost.
var remedies = [...]struct{ says, remedy string }{
	{wrongType, "another program writes there; give Weir a prefix or a database of its own"},
	{"connection refused", "is Redis running there?"},
	{"no such host", "that name is unknown: look at the URL"},
	{"NOAUTH", "write the password into the URL: redis://user:password@host:port, or its file: ?password-file=FILE"},
	{"WRONGPASS", "the server refuses the user or password in the URL, or its password-file"},
	{"NOPERM", rights},
	{"can't run this command or subcommand", rights},
	{"can't access at least one of the keys", rights},
	{"'SENTINEL'", "this is no sentinel; write redis://host:port, or give the address of one"},
	{"No such master with that name", "the sentinel watches no such master; SENTINEL MASTERS tells their names"},
	{"READONLY", "this is a replica; give the URL of the primary, or redis+sentinel://"},
	{"OOM", "the server is out of memory and may not evict; raise maxmemory, or choose maxmemory-policy volatile-ttl"},
	{"NOREPLICAS", "the primary has too few replicas that keep up, and min-replicas-to-write makes it refuse writes; see INFO replication"},
	{"MISCONF", "the server can't write its snapshots and refuses writes; look into its log"},
	{"LOADING", "the server reads its data; it will answer soon"},
	{"MASTERDOWN", "the replica has lost its primary; give the URL of the primary"},
	{"CLUSTERDOWN", "slots of the cluster are not served; see CLUSTER INFO"},
	{"CROSSSLOT", "this is a Redis Cluster; write redis+cluster://host:port,…"},
	{"MOVED", "this is a Redis Cluster; write redis+cluster://host:port,…"},
	{"BUSY", "another program's script takes too long; see SCRIPT KILL"},
	{"ERR unknown command", "the server is too old or has renamed the command; Weir needs Redis 5 or later with EVALSHA"},
}

// explain adds to an error of the server what to do about it. An error about one key is a
// CountError: the server is there, and a breaker must not open for it.
//
// The edge tells by the type of an error whether the server is away. A CountError is of one
// descriptor only, and all else may be of the server: its breaker counts that.
func explain(err error) error {
	text := err.Error()
	for _, r := range remedies {
		if strings.Contains(text, r.says) {
			err = fmt.Errorf("redisstore: %w; %s", err, r.remedy)
			if r.says == wrongType {
				return &record.CountError{Err: err}
			}
			return err
		}
	}
	return fmt.Errorf("redisstore: %w", err)
}
