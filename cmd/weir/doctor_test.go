package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-limit/weir/cmd/weir/internal/logstore"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/redistest"
)

// startLog starts a broker with a topic as Weir makes it, but for its partitions, and one that is compacted.
func startLog(t *testing.T) (addr string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for topic, settings := range map[string]map[string]string{
		"weir":    {"cleanup.policy": "delete", "retention.ms": "259200000", "message.timestamp.type": "LogAppendTime"},
		"compact": {"cleanup.policy": "compact"},
	} {
		if err := c.CreateTopic(topic, 2, settings); err != nil {
			t.Fatal(err)
		}
	}
	return c.ListenAddrs()[0]
}

// madeStream has a process make the stream of a URL.
func madeStream(t *testing.T, url string) {
	t.Helper()
	s, err := logstore.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	s.Start(0, slog.New(slog.DiscardHandler))
	if err := errors.Join(s.Caught(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDoctor: 0 when there are warnings at most, 1 for faults, 2 for what is no
// store, 3 when nobody answers; and no password in what it says.
func TestDoctor(t *testing.T) {
	t.Parallel()
	guarded := redistest.Start(t, "requirepass", "secret-word")
	cached := memcachedtest.Start(t, "-m", "64")
	nats := natstest.Start(t)
	replica := redistest.Start(t, "replicaof", "127.0.0.1 1")
	log := startLog(t)
	madeStream(t, "nats://"+nats.Addr+"?log=made")
	postgres := postgrestest.StartTCP(t)
	database := postgres.Database(t)
	postgres.Query(t, database, "create table theirs (k int)")
	postgres.Query(t, database, "create role low login")
	for _, c := range []struct {
		url  string
		code int
		says string
	}{
		{"redis://:secret-word@" + guarded.Addr, exitYes, "warning: " + guarded.Addr + ": there is no maxmemory"},
		{"redis://" + replica.Addr, exitNo, "fault: " + replica.Addr + ": this is a replica"},
		{"redis://:secret-wrong@" + guarded.Addr, exitFail, "user or password in the URL"},
		{"redis://127.0.0.1:1", exitFail, "connection refused"},
		{"redis://:secret-word@localhost", exitUsage, "is no host:port"},
		{"redis+unix:///nobody/listens", exitFail, "no such file"},
		{"memcached://" + cached.Addr, exitYes, " 0 items dropped before their time\n"},
		{"memcached://" + cached.Addr + ",127.0.0.1:1", exitNo, "fault: 127.0.0.1:1: "},
		{"memcached://127.0.0.1:1", exitFail, "is memcached running there?"},
		{database, exitYes, "  table  \"weir\", logged, "},
		{database + "&table=theirs", exitNo, "fault: " + postgres.Addr + ": table \"theirs\" has the columns k integer"},
		{strings.Replace(database, "weir@", "low@", 1), exitNo, "user low may not select, insert, update, delete in table \"weir\"; run: grant"},
		{"postgres://weir:secret@127.0.0.1:1/x", exitFail, "nothing was decided: failed to connect to `user=weir database=x`: 127.0.0.1:1 (127.0.0.1): dial error: " +
			"dial tcp 127.0.0.1:1: connect: connection refused; is PostgreSQL running there?"},
		{"nats://" + nats.Addr, exitYes, "warning: the bucket has one replica"},
		{"nats://me:secret@127.0.0.1:1", exitFail, "is nats-server running there?"},
		{"nats://" + nats.Addr + "?replicas=3", exitNo, "fault: the bucket weir is not fit: it has replicas: 1, and the URL says 3; give it more by nats stream edit"},
		{"nats://" + nats.Addr + "?storage=memory&bucket=inmemory", exitYes, "warning: the bucket is in the memory of one server"},
		{"nats://" + nats.Addr + "?bucket=inmemory", exitNo, "the URL does not say storage=memory; write storage=memory"},
		{"kafka://" + log + "/weir", exitYes, "Kafka, topic weir: partitions 2, replicas 1, messages kept 72h0m0s\n  lag    "},
		{"kafka://" + log + "/weir", exitYes, "warning: the topic has one replica, so that counts are lost with its broker; give it three"},
		{"kafka://" + log + "/compact", exitNo, "fault: the topic \"compact\" is compacted, which drops counts of other processes; set cleanup.policy=delete"},
		{"kafka://" + log + "/none", exitYes, "warning: there is no topic \"none\"; weir serve makes it, or make it yourself: partitions 8, "},
		{"kafka://me:secret@127.0.0.1:1/weir?sasl=plain", exitFail, "Kafka, topic weir: unable to dial: dial tcp 127.0.0.1:1: connect: connection refused; is Kafka running there?"},
		{"nats://" + nats.Addr + "?log=weir", exitYes, "warning: there is no stream \"weir\"; weir serve makes it, or make it yourself: nats stream add weir "},
		{"nats://" + nats.Addr + "?log=KV_weir", exitNo, "fault: the stream \"KV_weir\" keeps 1 messages of a subject"},
		{"nats://" + nats.Addr + "?log=made", exitYes, "NATS, stream made: partitions 1, replicas 1, messages kept 72h0m0s\n  lag    "},
		{"nats://" + nats.Addr + "?log=made", exitYes, "warning: the stream has one replica, so that counts are lost with its server; nats stream edit made --replicas 3"},
		{"nats://me:secret@127.0.0.1:1?log=weir", exitFail, "is nats-server running there?"},
		{"nats://" + nats.Addr + "?log=a.b", exitUsage, "is no name of a stream"},
		{"memory:", exitUsage, "there is no server to examine"},
		{"cluster:", exitUsage, "weir cluster status"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"doctor", "--store", c.url}, strings.NewReader(""), &stdout, &stderr)
		text := stdout.String() + stderr.String()
		if code != c.code || !strings.Contains(text, c.says) || strings.Contains(text, "secret") {
			t.Errorf("%s: exit %d, %s", c.url, code, text)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"doctor"}, strings.NewReader(""), &stdout, &stderr); code != exitUsage {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	if code := run(t.Context(), []string{"doctor", "--json", "--store", "redis://:secret-word@" + guarded.Addr}, strings.NewReader(""), &stdout, &stderr); code != exitYes {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	var e examined
	if err := json.Unmarshal(stdout.Bytes(), &e); err != nil || e.Take == nil || e.Take.Median <= 0 || len(e.Nodes) != 1 || e.Nodes[0].Version == "" || e.Findings[0].Severity != "warning" {
		t.Errorf("%v %s", err, stdout.String())
	}
}
