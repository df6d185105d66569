package natsstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/weir-limit/weir/internal/cas"
)

// remedies say what to do about failures, by what a server or the client says.
//
// The first that matches counts, so what is particular stands before what is general.
var remedies = [...]struct{ says, remedy string }{
	{"maximum bytes exceeded", "the bucket is full; raise its max bytes, or give Weir another"},
	{"maximum messages exceeded", "the bucket is full; raise its max messages, or give Weir another"},
	{"requires a stream config to have max bytes", "make the bucket by hand, with max bytes"},
	{"resource", "raise the storage that the servers and the account may use"},
	{"replicas > 1 not supported", "write replicas=1, or make the servers a cluster"},
	{"no suitable peers", "write fewer replicas, or add servers"},
	{"JetStream not enabled", "turn JetStream on, for the servers and for the account"},
	{"no right to it", "give the user the rights that docs/stores.md lists"},
	{"Authorization Violation", "check user, password, token, creds and nkey"}, // of a server that ends the connection
	{"authentication", "check user, password, token, creds and nkey"},
	{"no server leads the bucket", "are most of its replicas there, with JetStream on?"},
	{"temporarily unavailable", "are most of the servers there?"},
	{cas.ErrApart.Error(), "run NTP on both"},
	{"has replicas: ", "give it more by nats stream edit KV_BUCKET --replicas N, or write fewer into the URL"},
	{"not say storage=memory", "write storage=memory if counts may go with the servers, or name another bucket, which the daemon makes"},
	{"is not fit", "give Weir a bucket of its own, which it makes itself"},
	{"another program's", "give Weir a bucket of its own"},
	{"exceeds maximum allowed", "raise the bucket's max value size, or give the descriptor fewer limits"},
	{"Maximum Payload", "raise max_payload of the servers to 1 MB, or give the descriptor fewer limits"}, // of a server that ends the connection
	{"maximum payload", "raise max_payload of the servers to 1 MB, or give the descriptor fewer limits"},
	{"would take more than", "give the descriptor fewer limits"},
	{"no servers available", "is nats-server running there?"},
	{"no answer of JetStream", "is it nats-server, 2.11 or later?"},
}

// Answers says whether an error of Status tells of servers that answer, and of a bucket or a clock that is not fit.
func Answers(err error) bool { return errors.Is(err, errUnfit) || errors.Is(err, cas.ErrApart) }

// remedy is what to do about an error.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is nats-server running there?"
	case errors.Is(err, syscall.EMFILE):
		return "this process has too many open files; raise ulimit -n"
	case errors.Is(err, nats.ErrAuthorization):
		return "check user, password, token, creds and nkey"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "it is overloaded, frozen, or cut off by a firewall"
	}
	for _, r := range remedies {
		if strings.Contains(err.Error(), r.says) {
			return r.remedy
		}
	}
	return ""
}

// explain adds to a failure, by which nothing was decided, whose it is and what to do about it. It
// names no key, for keys are personal and errors are logged.
func (l *link) explain(err error) error {
	if err == nil {
		return nil
	}
	if r := remedy(err); r != "" {
		return fmt.Errorf("natsstore: %s: nothing was decided: %w; %s", l.place(), err, r)
	}
	return fmt.Errorf("natsstore: %s: nothing was decided: %w", l.place(), err)
}

// explainWrite is explain for a write. Where the answer was lost, a caller has to know that what it
// asked may have been done: it must not ask again as if it had not, unless it asks for Once.
func (l *link) explainWrite(err error) error {
	if errors.Is(err, errLost) {
		return fmt.Errorf("natsstore: %s: what was sent may have been a charge: %w", l.place(), err)
	}
	return l.explain(err)
}
