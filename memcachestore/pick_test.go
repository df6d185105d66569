package memcachestore

import (
	"fmt"
	"strings"
	"testing"
)

// TestPick: which server has an item stays what it was. Another choice would begin the counts of
// running servers anew, and give each key two counts while programs are replaced by turns.
func TestPick(t *testing.T) {
	var servers []*server
	for i := range 3 {
		servers = append(servers, newServer(i, "tcp", fmt.Sprintf("10.0.0.%d:11211", i+1)))
	}
	var picked []string
	for i := range 24 {
		l := pick(servers, fmt.Sprint("weir:user:", i))
		picked = append(picked, fmt.Sprint(l.server.index))
	}
	if got, want := strings.Join(picked, ""), "212220021010111021022021"; got != want {
		t.Errorf("picked %s, want %s", got, want)
	}
}
