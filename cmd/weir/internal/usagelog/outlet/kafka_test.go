package outlet

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/porttest"
)

// startKafka starts a broker in this process, for a topic usage.
func startKafka(t *testing.T, o ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "usage")}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func kafkaURL(c *kfake.Cluster, user, options string) string {
	return "kafka://" + user + strings.Join(c.ListenAddrs(), ",") + "/usage" + options
}

// TestKafkaRestarts: while a broker is away, slow, or appends what it does not acknowledge, no sum is
// lost; and foreign records in the topic do no harm.
func TestKafkaRestarts(t *testing.T) {
	t.Parallel()
	port, dir := porttest.Port(t), t.TempDir()
	durable := []kfake.Opt{kfake.Ports(port), kfake.DataDir(dir)}
	c := startKafka(t, durable...)
	url := kafkaURL(c, "", "")
	l, _ := open(t, url)
	l.Start()
	stop := counting(l)
	time.Sleep(1500 * time.Millisecond)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 2})
	time.Sleep(1500 * time.Millisecond)
	c.Close()
	time.Sleep(3 * time.Second)
	c = startKafka(t, durable...)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		time.Sleep(time.Second) // once
		return nil, nil, false
	})
	foreign(t, url)
	time.Sleep(2 * time.Second)
	want := stop()
	end(t, l)
	if foreign, _ := audit(t, read(t, url), want); foreign != 2 {
		t.Errorf("%d foreign records, want 2", foreign)
	}
}

// foreign sends what is no record.
func foreign(t *testing.T, url string) {
	t.Helper()
	k, err := broker.ParseKafka(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := k.Client(kgo.DefaultProduceTopic(k.Topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, value := range []string{"hello", `{"id":7}`} {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKafkaTopicComes: without the topic the log says what to do, and when it is there nothing is lost.
func TestKafkaTopicComes(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	url := kafkaURL(c, "", "")
	if err := Read(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "UNKNOWN_TOPIC") {
		t.Errorf("reading no topic: %v", err)
	}
	l, s := open(t, url)
	l.Start()
	stop := counting(l)
	eventually(t, "the log says what is missing", func() bool { return strings.Contains(s.texts(), `there is no topic "usage"; make it`) })
	if err := c.CreateTopic("usage", 2, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is logged again", func() bool { return strings.HasSuffix(s.texts(), "<nil>]") })
	want := stop()
	end(t, l)
	audit(t, read(t, url), want)
}

// TestKafkaRights: users show who they are in each way, over TLS too, and one without the right to
// write is told which.
func TestKafkaRights(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t)
	server := ca.Issue(t)
	c := startKafka(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server.TLS(t)}}),
		kfake.Superuser("PLAIN", "ann", "p:w"), kfake.Superuser("SCRAM-SHA-256", "bob", "p:w"), kfake.Superuser("SCRAM-SHA-512", "cy", "p:w"),
		kfake.User("SCRAM-SHA-512", "eve", "p:w", kfake.ACL{
			Resource: kmsg.ACLResourceTypeTopic, Name: "usage", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true,
		}))
	safe := "ca=" + certtest.File(t, "ca.pem", ca.PEM)
	for _, way := range []struct{ user, options, says string }{
		{"ann:p%3Aw@", "?sasl=plain&" + safe, ""},
		{"bob:p%3Aw@", "?sasl=scram-sha-256&" + safe, ""},
		{"cy:p%3Aw@", "?" + safe, ""},
		{"cy:wrong@", "?" + safe, "user and password right? EOF"},
		{"cy:p%3Aw@", "", "no broker answers"},
		{"eve:p%3Aw@", "?" + safe, "may not write to the topic"},
	} {
		t.Run(way.user+way.says, func(t *testing.T) {
			t.Parallel()
			l, s := open(t, kafkaURL(c, way.user, way.options))
			l.Start()
			stop := counting(l)
			if way.says != "" {
				eventually(t, "the log says what is wrong: "+way.says, func() bool { return strings.Contains(s.texts(), way.says) })
				t.Log(s.texts())
				stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := l.Stop(ctx); err == nil {
					t.Error("it was kept after all")
				}
				return
			}
			eventually(t, "it is kept", func() bool { return l.Stats().Kept > 0 })
			stop()
			end(t, l)
		})
	}
}

// TestKafkaRightComes: a user without the right to be a producer is told so, and when it has it nothing is
// lost.
func TestKafkaRightComes(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	var refusing atomic.Bool
	refusing.Store(true)
	c.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		refused := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		refused.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return refused, nil, refusing.Load()
	})
	url := kafkaURL(c, "", "")
	l, s := open(t, url)
	l.Start()
	stop := counting(l)
	eventually(t, "the log says what is missing", func() bool { return strings.Contains(s.texts(), "IDEMPOTENT_WRITE at the cluster") })
	refusing.Store(false)
	eventually(t, "it is logged again", func() bool { return strings.HasSuffix(s.texts(), "<nil>]") })
	want := stop()
	end(t, l)
	audit(t, read(t, url), want)
}

// kcat is librdkafka's brokers in one process, and a reader of the topic usage at them: neither has
// code in common with the client that is tested.
type kcat struct {
	*exec.Cmd

	servers string
	mu      sync.Mutex
	lines   []string
}

func startKcat(t *testing.T) *kcat {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed")
	}
	k := &kcat{Cmd: exec.CommandContext(t.Context(), "kcat", "-X", "test.mock.num.brokers=3", "-b", "mock", "-C", "-t", "usage", "-u", "-f", `%s\n`, "-d", "mock", "-E")}
	stdout, err := k.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := k.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = k.Process.Kill()
		_ = k.Wait()
	})
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			k.mu.Lock()
			k.lines = append(k.lines, lines.Text())
			k.mu.Unlock()
		}
	}()
	said := bufio.NewReader(stderr)
	for k.servers == "" {
		line, err := said.ReadString('\n')
		if err != nil {
			t.Skip("kcat has no brokers: ", err)
		}
		if m := regexp.MustCompile(`bootstrap\.servers=(\S+)`).FindStringSubmatch(line); m != nil {
			k.servers = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return k
}

// read is the lines so far.
func (k *kcat) read() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.lines...)
}

// TestKcat: brokers that librdkafka brings take the records, over a freeze of all of them, and its
// consumer reads sums that are right.
func TestKcat(t *testing.T) {
	t.Parallel()
	k := startKcat(t)
	topic, err := broker.ParseKafka("kafka://" + k.servers + "/usage")
	if err != nil {
		t.Fatal(err)
	}
	// These brokers do not answer as Kafka does when they are asked for newer versions.
	sink, err := openKafka(topic, kgo.MaxVersions(kversion.V2_3_0()))
	if err != nil {
		t.Fatal(err)
	}
	l := usagelog.New(sink, usagelog.Options{Node: "node"})
	l.Start()
	stop := counting(l)
	time.Sleep(2 * time.Second)
	if err := k.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * time.Second)
	if err := k.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	want := stop()
	end(t, l)
	kept := int(l.Stats().Kept)
	eventually(t, "kcat reads "+strconv.Itoa(kept)+" records", func() bool { return len(k.read()) >= kept })
	audit(t, k.read(), want)
}
