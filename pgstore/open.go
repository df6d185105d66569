package pgstore

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/cas"
)

const (
	// DefaultTable is the table of the counts when the URL says nothing.
	DefaultTable = "weir"
	// defaultConnections is how many connections a process opens at most. While one waits for the disk,
	// others work.
	defaultConnections = 4
	maxConnections     = 64
	// maxValue is how large an item may grow; a take that would make it larger fails. Rows of more than
	// 2 KB are slow.
	maxValue = 256 << 10
)

// Open is Dial, with the edge around the store: calls have a deadline, the fallback of each
// limit decides while the server is away, and limits with sync are decided locally. The
// caller closes it. A program that wants to hear when a server goes away calls Dial and
// edge.New.
func Open(url string, o Options) (*edge.Store, error) {
	s, err := Dial(url, o)
	if err != nil {
		return nil, err
	}
	return edge.New(s, edge.Options{}), nil
}

// Dial makes a store of the server that a URL names, without the edge of Open:
// postgres://user:password@host:port/database, as psql takes it, with more hosts after commas. Options
// after the ? are those of PostgreSQL's own clients, such as sslmode, and
//
//	table=NAME               the table of the counts, or schema.NAME; default weir
//	unlogged=1               the table is unlogged: faster, and emptied by a crash of the server
//	synchronous_commit=off   takes do not wait for the disk
//	connections=N            how many connections a process opens at most; default 4
//	clock=server             takes are decided by the server's clock, as near as half of a round trip
//
// Nothing is connected yet: while the server is away, what needs it fails at once.
func Dial(url string, _ Options) (*Store, error) {
	config, o, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	c := newCells(config, o)
	return &Store{cells: c, decides: cas.New(engine(c, c, name))}, nil
}

// engine is what decides over cells, which are those of c.
func engine(c *cells, over cas.Cells, name func(weir.StateKey) string) cas.Config {
	traits := traitsOf(c.options.unlogged)
	traits.Bare = true
	config := cas.Config{
		Package: "pgstore", Cells: over, MaxValue: maxValue, Together: true, Traits: traits, Name: name, NoteMark: noteMark,
	}
	if c.options.serverClock {
		config.Clock = c.clock.instant
	}
	return config
}

// CheckURL says whether Dial takes a URL.
func CheckURL(url string) error {
	if _, _, err := parseURL(url); err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

// ServerClock says whether a URL that CheckURL takes has takes decided by the server's clock.
func ServerClock(url string) bool {
	_, o, err := parseURL(url)
	return err == nil && o.serverClock
}

// options are those of a URL that are the store's.
type options struct {
	schema, table     string // schema is empty: the first of the search path
	unlogged          bool
	serverClock       bool
	synchronousCommit string // empty: as the server has it
	connections       int
	connecting        time.Duration // how long all hosts may take together to accept a connection
}

// quoted is the name of the table in SQL. It has nothing that would have to be escaped: see nameForm.
func (o *options) quoted() string {
	if o.schema == "" {
		return `"` + o.table + `"`
	}
	return `"` + o.schema + `"."` + o.table + `"`
}

var nameForm = regexp.MustCompile(`^(?:([a-z_][a-z0-9_]{0,62})\.)?([a-z_][a-z0-9_]{0,50})$`)

const urlForm = "write postgres://user:password@host:port/database"

// parseURL reads a URL. Its errors repeat nothing of it but an option, for it may have a password.
func parseURL(text string) (*pgconn.Config, *options, error) {
	rest, query, _ := strings.Cut(text, "?")
	if !strings.HasPrefix(rest, "postgres://") && !strings.HasPrefix(rest, "postgresql://") {
		return nil, nil, fmt.Errorf("the URL does not begin with postgres://; %s", urlForm)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, nil, errors.New("the options can't be read; write ?name=value, and more with &")
	}
	o, err := parseOptions(values)
	if err != nil {
		return nil, nil, err
	}
	if len(values) > 0 {
		rest += "?" + values.Encode()
	}
	config, err := pgconn.ParseConfig(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %s", unquoted(err), urlForm)
	}
	switch attrs := values.Get("target_session_attrs"); attrs {
	case "read-only", "standby", "prefer-standby":
		return nil, nil, fmt.Errorf("target_session_attrs=%s is of servers that take no writes; leave it out", attrs)
	case "": // PGTARGETSESSIONATTRS is of programs that may read
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "weir"
	}
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	if config.ConnectTimeout == 0 { // neither the URL nor the environment says
		config.ConnectTimeout = connectTime
	}
	config.DialFunc = onlyConnect(config.DialFunc)
	// Each has one address or two, of IPv6 and of IPv4.
	o.connecting = config.ConnectTimeout * time.Duration(2*(1+len(config.Fallbacks)))
	return config, o, nil
}

// unquoted is an error of ParseConfig without the URL that it repeats.
func unquoted(err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		text = text[i+len("`: "):]
	}
	return errors.New(text)
}

// parseOptions takes the store's own options out of those of a URL.
func parseOptions(values url.Values) (*options, error) {
	o := &options{table: DefaultTable, connections: defaultConnections}
	for _, name := range []string{"table", "unlogged", "clock", "synchronous_commit", "connections"} {
		given, there := values[name]
		delete(values, name)
		if !there {
			continue
		}
		if len(given) > 1 {
			return nil, fmt.Errorf("option %s is given %d times; give it once", name, len(given))
		}
		if err := o.set(name, given[0]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *options) set(name, value string) error {
	switch name {
	case "table":
		m := nameForm.FindStringSubmatch(value)
		if m == nil {
			return fmt.Errorf("table=%.80q is no name of a table; write small letters, digits and _, at most 51, and schema.table where it is not the first schema of the search path", value)
		}
		o.schema, o.table = m[1], m[2]
	case "unlogged":
		if value != "1" && value != "0" {
			return fmt.Errorf("unlogged=%.20q; write unlogged=1, or leave it out", value)
		}
		o.unlogged = value == "1"
	case "clock":
		if value != "server" {
			return fmt.Errorf("clock=%.20q; write clock=server, or leave it out for the clock of each process", value)
		}
		o.serverClock = true
	case "synchronous_commit":
		if !slices.Contains([]string{"off", "local", "remote_write", "on", "remote_apply"}, value) {
			return fmt.Errorf("synchronous_commit=%.20q; write off, local, remote_write, on or remote_apply", value)
		}
		o.synchronousCommit = value
	case "connections":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxConnections {
			return fmt.Errorf("connections=%.20q; write a number from 1 to %d", value, maxConnections)
		}
		o.connections = n
	}
	return nil
}

// connectTime is how long a host may take to accept a connection, where connect_timeout does not say.
const connectTime = time.Second
