package logstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weir-limit/weir"
)

// startMock starts the brokers that librdkafka brings, with kcat as a reader of the topic: neither has
// code in common with the client that is tested. read is what kcat has read, and servers where they are.
func startMock(t *testing.T) (servers string, read func() []string) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "kcat", "-X", "test.mock.num.brokers=3", "-b", "none", "-C", "-t", "weir", "-u", "-E", "-d", "mock", "-f", `%k\t%s\n`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	var mu sync.Mutex
	var lines []string
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			mu.Lock()
			lines = append(lines, scan.Text())
			mu.Unlock()
		}
	}()
	place := regexp.MustCompile(`bootstrap\.servers=(\S+)`)
	for scan := bufio.NewScanner(said); servers == ""; {
		if !scan.Scan() {
			t.Skip("this kcat has no brokers")
		}
		if m := place.FindStringSubmatch(scan.Text()); m != nil {
			servers = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return servers, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), lines...)
	}
}

// TestKcat: stores share their counts through the brokers of librdkafka, which don't find messages by their
// time, and its reader finds in the log what docs/stores.md says.
func TestKcat(t *testing.T) {
	t.Parallel()
	servers, read := startMock(t)
	// These brokers do not answer as Kafka does when they are asked for newer versions.
	url, old := "kafka://"+servers+"/weir", kgo.MaxVersions(kversion.V2_0_0())
	a, b := open(t, url, "a", old), open(t, url, "b", old)
	const limit = "100/h fixed-window"
	passed := int64(0)
	for range 10 {
		passed += int64(take(t, a, limit, "k", 4) + take(t, b, limit, "k", 3))
		time.Sleep(30 * time.Millisecond)
	}
	eventually(t, "both know of all", func() bool { return used(t, a, limit, "k") == passed && used(t, b, limit, "k") == passed })
	sums := map[string]int64{}
	eventually(t, "kcat has read all", func() bool {
		for _, line := range read() {
			key, value, _ := strings.Cut(line, "\t")
			var e struct {
				Weir, Slot, Sum int64
				Node, Key, Rule string
				Limit           string
			}
			if err := json.Unmarshal([]byte(value), &e); err != nil || e.Weir != 1 {
				t.Fatalf("%q: %v", value, err)
			}
			if e.Sum > 0 {
				sums[e.Node] = e.Sum
				if key != "api/user\x00k" || e.Rule != "api/user" || e.Key != "k" || e.Limit != limit || e.Slot != 1 {
					t.Errorf("%q", line)
				}
			}
		}
		return sums["a"]+sums["b"] == passed
	})
	for _, s := range []*Store{a, b} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := used(t, open(t, url, "a", old), limit, "k"); n != passed {
		t.Errorf("after all have started again %d are used, want %d", n, passed)
	}
}

// notes is a log for one test.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *notes) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.text.String(), text)
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	url := urlOf(c)
	a := open(t, url, "a")
	const limit = "100/h fixed-window"
	take(t, a, limit, "k", 30)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, url)
	time.Sleep(1200 * time.Millisecond)
	for p := range int32(partitions) {
		drop := kmsg.NewPtrDeleteRecordsRequest()
		drop.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "weir", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: p, Offset: -1}}}}
		if _, err := drop.RequestWith(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	said := new(notes)
	b := dial(t, url, "b")
	b.Start(time.Hour, slog.New(slog.NewTextHandler(said, nil)))
	caught(t, b)
	if n := used(t, b, limit, "k"); n != 0 || !said.has("what was used before is forgotten") {
		t.Errorf("%d used; said %v", n, said.text.String())
	}
}

// TestSettings: a topic that is there already is looked at.
func TestSettings(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{"compact": "is compacted", "delete": ""} {
		c := startKafka(t)
		if err := c.CreateTopic("weir", 2, map[string]string{"cleanup.policy": policy, "retention.ms": "60000"}); err != nil {
			t.Fatal(err)
		}
		said := new(notes)
		s := dial(t, urlOf(c), "a")
		s.Start(time.Hour, slog.New(slog.NewTextHandler(said, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err := s.Caught(ctx)
		cancel()
		x, odd := Examine(t.Context(), urlOf(c))
		switch {
		case odd != nil:
			t.Error(odd)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, weir.ErrAway) || !x.Findings[1].Fault):
			t.Errorf("%s: %v, %+v", policy, err, x)
		case want == "" && (err != nil || !said.has("keeps messages for 1m0s") || !said.has("message.timestamp.type=LogAppendTime") || len(x.Findings) < 3 || len(x.Lags) == 0):
			t.Errorf("%s: %v, %+v, %s", policy, err, x, said.text.String())
		}
	}
}

// TestRights: a user who may not use the topic is told which rights are missing.
func TestRights(t *testing.T) {
	t.Parallel()
	c := startKafka(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "eve", "pw", kfake.ACL{
		Resource: kmsg.ACLResourceTypeTopic, Name: "weir", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true,
	}))
	if err := c.CreateTopic("weir", 1, nil); err != nil {
		t.Fatal(err)
	}
	servers := strings.TrimPrefix(urlOf(c), "kafka://")
	for user, want := range map[string]string{"eve:pw@": "give it READ, WRITE", "eve:no@": "another user or password", "": "does it want TLS"} {
		url := "kafka://" + user + servers
		if user != "" {
			url += "?sasl=plain"
		}
		s := dial(t, url, "a")
		s.Start(0, logOf(t))
		eventually(t, user+" is told "+want, func() bool {
			err := s.away()
			return errors.Is(err, weir.ErrAway) && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "pw")
		})
	}
}

// TestClocks: where brokers give messages their time, a process whose clock is wrong neither forgets
// nor counts for longer.
func TestClocks(t *testing.T) {
	t.Parallel()
	atEach(t, "", clocks)
}

func clocks(t *testing.T, url string) {
	a := open(t, url, "a")
	const limit = "100/h"
	take(t, a, limit, "k", 50)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond)
	for _, c := range []struct{ off, back time.Duration }{
		{2 * time.Second, 4 * time.Second}, // it would look back 1.5 s too little
		{-10 * time.Minute, 2 * time.Minute},
		{10 * time.Minute, 2 * time.Minute},
	} {
		b := dial(t, url, "b")
		b.now = func() weir.Instant { return weir.InstantOf(time.Now().Add(c.off)) }
		b.Start(c.back, logOf(t))
		caught(t, b)
		if n := used(t, b, limit, "k"); n < 49 || n > 50 {
			t.Errorf("a clock that is off by %v: %d used, want 50", c.off, n)
		}
		b.stop()
	}
}
