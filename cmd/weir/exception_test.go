package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestException: a client is given a limit, listed, explained and put back; a list is imported; mistakes say what to write.
func TestException(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop("  - key: user\n    limits: [10/day]\n  - key: tier\n    limits: [{name: fast, limit: 10/s}, {name: day, limit: 100/day}]\n")
	d.at(d.admin, "rules", "apply", "--team", "shop", "--to", "enforced", "--force", "--reason", "a test", d.files)
	list := filepath.Join(d.files, "list.csv")
	write(t, list, "user,limit,for\n4713,7/day,1day\n4714,7/day,1day\n")
	for _, step := range []struct{ args, want string }{
		{"exception set shop user=4711 100/day --for 7day --reason launch", "domain shop, user=4711: has 100/day until TIME\n"},
		{"exception set shop tier=a 500/day --of day --for 1h --reason sale", "domain shop, tier=a: has 500/day until TIME\n"},
		{
			"exception list shop --no-headers", "shop  tier=a     500/day for day  TIME  ops  sale\n" +
				"shop  user=4711  100/day          TIME  ops  launch\n",
		},
		{"exception list shop user --no-headers", "shop  user=4711  100/day  TIME  ops  launch\n"},
		{"exception end shop user=4711 --reason over", "domain shop, user=4711: had 100/day until TIME\n"},
		{"exception import shop " + list + " --dry-run --reason many", "domain shop: 2 exceptions would be set\n"},
		{"exception import shop " + list + " --reason many", "domain shop: 2 exceptions set\n"},
		{"exception list --search 471 --no-headers", "shop  user=4713  7/day  TIME  ops  many\nshop  user=4714  7/day  TIME  ops  many\n"},
	} {
		if got := d.at(d.admin, strings.Fields(step.args)...); got != step.want {
			t.Errorf("%s\n%s\nwant %s", step.args, got, step.want)
		}
	}
	write(t, list, "user,limit,for\n4713,7/dy,1day\n4714,7/day\n")
	for _, c := range []struct{ args, says string }{
		{"exception set shop user=4711 100/day --reason launch", "for"},
		{"exception set shop user=4711 --for 1h --reason launch", "LIMIT is missing"},
		{"exception set shop user 100/day --for 1h --reason launch", `"user" is no key=value`},
		{"exception set shop usr=4711 100/day --for 1h --reason launch", "did you mean user"},
		{"exception set shop user=4711 100/dy --for 1h --reason launch", "limit: "},
		{"exception set shop tier=a 100/day --for 1h --reason launch", "name the one that is meant"},
		{"exception set shop user=4711 100/day --for 365day --reason launch", "from 1s to 92day"},
		{"exception set shop user=4711 100/day --until tomorrow --reason launch", "is no time"},
		{"exception end shop user=4711 --reason over", "has no exception"},
		{"exception import shop " + list + " --reason many", "line 3: has 2 fields"},
	} {
		if code, out, told := d.runs(strings.Fields(c.args)...); code != exitUsage || out != "" || !strings.Contains(told, c.says) {
			t.Errorf("%s: exit %d, %s%s; want %q", c.args, code, out, told, c.says)
		}
	}
}
