package outlet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
)

// said is what a log says of itself.
type said struct {
	mu   sync.Mutex
	errs []error
}

func (s *said) changed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// texts is what was said so far.
func (s *said) texts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.errs)
}

// open opens a log.
func open(t *testing.T, url string) (*usagelog.Log, *said) {
	t.Helper()
	s := new(said)
	l, err := Open(url, "node", s.changed)
	if err != nil {
		t.Fatal(err)
	}
	return l, s
}

// counting counts at random keys in the background, until it is stopped, and is what it counted.
func counting(l *usagelog.Log) (stop func() map[string]usagelog.Counts) {
	sums := map[string]usagelog.Counts{}
	var g sync.WaitGroup
	done := make(chan struct{})
	r := l.Open(usagelog.ID{Rule: "r"})
	g.Go(func() {
		for i := 0; ; i++ {
			key := "key-" + strconv.Itoa(i*i%307)
			d := weir.Decision{Outcome: weir.Outcome(i % 2), Cost: int64(i % 5), Charged: i%2 == 1}
			r.Throttled(key, &d)
			c := sums[key]
			if i%2 == 1 {
				c.Allowed, c.AllowedEvents, c.Charged = c.Allowed+1, c.AllowedEvents+d.Cost, c.Charged+d.Cost
			} else {
				c.Denied, c.DeniedEvents = c.Denied+1, c.DeniedEvents+d.Cost
			}
			sums[key] = c
			select {
			case <-done:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	})
	return func() map[string]usagelog.Counts {
		close(done)
		g.Wait()
		return sums
	}
}

// end stops a log, in time.
func end(t *testing.T, l *usagelog.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := l.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// audit holds what was read to what was counted: whole intervals without a gap, and their sums. It is
// how many lines were no records, and how many records came twice.
func audit(t *testing.T, lines []string, want map[string]usagelog.Counts) (foreign, twice int) {
	t.Helper()
	seen, sums := map[string]usagelog.Record{}, map[string]usagelog.Counts{}
	rows, last := map[string]int{}, 0
	for _, line := range lines {
		r, err := usagelog.ParseRecord([]byte(line))
		if err != nil {
			foreign++
			continue
		}
		if before, ok := seen[r.ID]; ok {
			if twice++; before != r {
				t.Fatalf("one id, two records: %+v and %+v", before, r)
			}
			continue
		}
		seen[r.ID] = r
		at := strings.Split(r.ID, "/")
		n, _ := strconv.Atoi(at[2])
		last = max(last, n)
		if rows[at[2]]++; rows[at[2]] > r.Rows {
			t.Errorf("interval %d has more than %d records", n, r.Rows)
		}
		c, add := sums[r.Key], r.Counts()
		c.Add(&add)
		sums[r.Key] = c
	}
	for i := 1; i <= last; i++ {
		if rows[strconv.Itoa(i)] == 0 {
			t.Errorf("there is no interval %d", i)
		}
	}
	if !maps.Equal(sums, want) {
		t.Errorf("%d records, %d foreign, %d twice: they add up to %+v, want %+v", len(seen), foreign, twice, total(sums), total(want))
	}
	return foreign, twice
}

func total(sums map[string]usagelog.Counts) (all usagelog.Counts) {
	for _, c := range sums {
		all.Add(&c)
	}
	return all
}

// read is all lines of a log.
func read(t *testing.T, url string) (lines []string) {
	t.Helper()
	if err := Read(t.Context(), url, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("in vain: " + what)
			return
		}
	}
}

// TestFile: files are read as they were written, of a folder or one by one.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "usage[1]") // which is no pattern
	url := "file:" + dir
	l, _ := open(t, url+"?node=n")
	l.Start()
	stop := counting(l)
	time.Sleep(2500 * time.Millisecond)
	want := stop()
	end(t, l)
	if foreign, twice := audit(t, read(t, url), want); foreign != 0 || twice != 0 {
		t.Errorf("%d foreign, %d twice", foreign, twice)
	}
	for _, bad := range []string{"file:" + t.TempDir(), "file:" + dir + "/none", "file:", "disk:"} {
		if err := Read(t.Context(), bad, nil); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// TestBadURLs: a URL that can't be meant says why, and nothing of a password.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                         "write file:DIR, kafka://HOST:PORT/TOPIC or nats://HOST:PORT/SUBJECT",
		"kafka:host:9092/t":                        "this is no usage log",
		"kafka://host/t":                           `"host" is no host:port`,
		"kafka://h:1,:2/t":                         "names no host",
		"kafka://h:1":                              `"" is no topic; write HOST:PORT/TOPIC`,
		"kafka://h:1/a/b":                          `"a/b" is no topic`,
		"kafka://u:hush%zz@h:1/t":                  "the user or the password can't be read",
		"kafka://u:hush/hush@h:1/t":                "write each of %:/?@, as %",
		"nats://u:hush?hush@h:1/t":                 "write each of %:/?@, as %",
		"kafka://u:12/hush@h:1/t":                  "write each of %:/?@, as %",
		"kafka://h:1/t\n":                          `"t\n" is no topic`,
		"nats://h:1/t\x00":                         `"t\x00" is no subject`,
		"kafka://u:hush@h:1/t?sasl=magic":          `sasl is "magic"; write scram-sha-512`,
		"kafka://h:1/t?sasl=plain":                 "sasl is for a user",
		"kafka://h:1/t?creds=x":                    `unknown option "creds"`,
		"kafka://h:1/t?tls=yes":                    `tls is "yes"`,
		"kafka://h:1/t?tls=false&ca=x":             "leave out tls=false",
		"kafka://h:1/t?ca=none":                    "open none",
		"kafka://h:1/t?cert=x":                     "belong together",
		"kafka://h:1/t?node=":                      "option node has no value",
		"nats://u:hush@h:1":                        `"" is no subject`,
		"nats://h:1/a.*":                           "no * or >",
		"nats://h:1/a..b":                          "is no subject to publish to",
		"nats://h:1/a?sasl=plain":                  `unknown option "sasl"`,
		"nats://h:1/a?hash-key-file=/dev/null":     "has 0 bytes",
		"nats://h:1/a?creds=/none&tls=true&cert=x": "belong together",
	} {
		_, err := Open(url, "node", nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
		if err := Read(t.Context(), url, nil); err == nil {
			t.Errorf("%s was read", url)
		}
	}
}

// TestHidden: a secret makes the same hash of a key everywhere.
func TestHidden(t *testing.T) {
	t.Parallel()
	hide, err := hider(secretFile(t, "0123456789abcdef\nmore"))
	if err != nil {
		t.Fatal(err)
	}
	// printf %s ann | openssl dgst -sha256 -hmac 0123456789abcdef
	if got, want := hide("ann"), "hmac-sha256:"+annHash; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

const annHash = "fb385915a0623c0be3e7b0a7134dbb620a2771faff45e92eb8647d11aa2947cf"

func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
