package membership

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
)

// TestList: a list that was saved is read by the next process, if it is of the same cluster and
// key; any other is refused, and says what to do.
func TestList(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	o := Options{Cluster: "shop", Keys: [][]byte{key}, List: filepath.Join(t.TempDir(), "made", "members")}
	var m memory
	if members, err := m.begin(&o); err != nil || len(members) > 0 || m.now.Met {
		t.Fatalf("a first process begins with %v, %v", members, err)
	}
	m.now.Counted = true
	m.know([]gossip.Member{{Name: "a", ID: 1, Address: "10.0.0.1:1"}, {Name: "b", ID: 2, Address: "10.0.0.2:1"}}, "a")
	m.know([]gossip.Member{{Name: "a", ID: 1, Address: "10.0.0.1:1"}, {Name: "c", ID: 3, Address: "10.0.0.3:1"}}, "a")

	for what, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"the same":        {func(*Options) {}, ""},
		"one more key":    {func(o *Options) { o.Keys = [][]byte{other, key} }, ""},
		"another key":     {func(o *Options) { o.Keys = [][]byte{other} }, "give it that key, too"},
		"no key":          {func(o *Options) { o.Keys = nil }, "give it that key, too"},
		"another cluster": {func(o *Options) { o.Cluster = "mail" }, `was in cluster "shop"`},
	} {
		var next memory
		now := o
		now.List = filepath.Join(t.TempDir(), "members")
		copied(t, o.List, now.List)
		c.change(&now)
		members, err := next.begin(&now)
		if c.want == "" && (err != nil || len(members) != 1 || members[0].Name != "c" || members[0].ID != 3 || !next.now.Counted || !next.now.Met) {
			t.Errorf("%s: %+v, %v", what, members, err)
		}
		if _, ok := errors.AsType[*ListError](err); c.want != "" && (!ok || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--bootstrap")) {
			t.Errorf("%s: %v; want %s", what, err, c.want)
		}
		now.Bootstrap = true
		if members, err := new(memory).begin(&now); err != nil || len(members) > 0 {
			t.Errorf("%s, the first of a new cluster: %v, %v", what, members, err)
		}
		now.Bootstrap = false
		if members, err := next.begin(&now); err != nil || len(members) > 0 || !next.now.Met {
			t.Errorf("%s, after that: %v, %v", what, members, err)
		}
	}
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err := errors.Join(err, os.WriteFile(to, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestListDamaged refuses what no node has written.
func TestListDamaged(t *testing.T) {
	for _, text := range []string{
		"", "{", `{"version":2}`, `{"version":1,"members":[{"name":"","id":1,"address":"10.0.0.1:1"}]}`,
		`{"version":1,"members":[{"name":"b","id":1,"address":"b:1"}]}`,
		`{"version":1,"members":[{"name":"b","id":1,"address":"10.0.0.1:1"},{"name":"c","id":1,"address":"10.0.0.1:1"}]}`,
		strings.Repeat(" ", maxListFile+1),
	} {
		o := Options{List: filepath.Join(t.TempDir(), "members")}
		if err := os.WriteFile(o.List, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := new(memory).begin(&o); err == nil || !strings.Contains(err.Error(), "remove it if other nodes can be reached") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// TestListUnwritable: a list that has no place is told of.
func TestListUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := New()
	o := Options{List: filepath.Join(file, "members"), Bootstrap: true}
	if _, err := n.memory.begin(&o); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(n.forgetful(), "\n"); !strings.Contains(said, "can't remember its members") {
		t.Errorf("it says %q", said)
	}
}

// TestListOfItself: a list that has the node's own name is no list, and the error says what to do.
func TestListOfItself(t *testing.T) {
	o := Options{Address: "10.0.0.1:1", List: filepath.Join(t.TempDir(), "members")}
	text := `{"version":1,"cluster":"","key":"","met":true,"counted":true,"members":[{"name":"10.0.0.1:1","id":2,"address":"10.0.0.1:1"}]}`
	if err := os.WriteFile(o.List, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := new(memory).begin(&o)
	if _, ok := errors.AsType[*ListError](err); !ok || !strings.Contains(err.Error(), "is there twice") || !strings.Contains(err.Error(), "--bootstrap") {
		t.Error(err)
	}
}
