package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
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
			"exception list shop --no-headers", "ID  shop  tier=a     500/day for day  TIME  ops  sale\n" +
				"ID  shop  user=4711  100/day          TIME  ops  launch\n",
		},
		{"exception list shop user --no-headers", "ID  shop  user=4711  100/day  TIME  ops  launch\n"},
		{"exception end shop user=4711 --reason over", "domain shop, user=4711: had 100/day until TIME\n"},
		{"exception import shop " + list + " --dry-run --reason many", "domain shop: 2 exceptions would be set\n"},
		{"exception import shop " + list + " --reason many", "domain shop: 2 exceptions set\n"},
		{"exception list --search 471 --no-headers", "ID  shop  user=4713  7/day  TIME  ops  many\nID  shop  user=4714  7/day  TIME  ops  many\n"},
	} {
		got := regexp.MustCompile(`(?m)^[a-z0-9]{16} `).ReplaceAllString(d.at(d.admin, strings.Fields(step.args)...), "ID ")
		if got != step.want {
			t.Errorf("%s\n%s\nwant %s", step.args, got, step.want)
		}
	}
	// Two limits of one rule, of one client: one is named by its ID.
	d.at(d.admin, strings.Fields("exception set shop tier=b 500/day --of day --for 1h --reason sale")...)
	d.at(d.admin, strings.Fields("exception set shop tier=b 50/s --of fast --for 1h --reason sale")...)
	write(t, list, "user,limit,for\n4713,7/dy,1day\n4714,7/day\n")
	for _, c := range []struct{ args, says string }{
		{"exception set shop user=4711 100/day --reason launch", "for"},
		{"exception set shop user=4711 --for 1h --reason launch", "LIMIT is missing"},
		{"exception set shop user 100/day --for 1h --reason launch", `"user" is no key=value`},
		{"exception set shop usr=4711 100/day --for 1h --reason launch", "did you mean user"},
		{"exception set shop user=4711 100/dy --for 1h --reason launch", "limit: "},
		{"exception set shop tier=a 100/day --for 1h --reason launch", "name the one that is meant"},
		{"exception set shop user=4711 100/day --for 365day --reason launch", "--for 365day: write a time from 1s to 92day"},
		{"exception set shop user=47\xff 100/day --for 1h --reason launch", `"47\xff" is not UTF-8`},
		{"exception set shop user=4711 100/day --for 1h --reason la\xffunch", `"la\xffunch" is not UTF-8`},
		{"exception end shop tier=b --reason over", "500/day for day until "},
		{"exception end shop tier=b --reason over --id x", "takes flags and no arguments"},
		{"exception end --id nosuch --reason over", "there is no exception nosuch"},
		{"exception set shop user=4711 100/day --until tomorrow --reason launch", "is no time"},
		{"exception end shop user=4711 --reason over", "has no exception"},
		{"exception import shop " + list + " --reason many", "list.csv:3:1: error: has 2 fields, and the first line names 3 columns\nweir: "},
	} {
		if code, out, told := d.runs(strings.Fields(c.args)...); code != exitUsage || out != "" || !strings.Contains(told, c.says) {
			t.Errorf("%s: exit %d, %s%s; want %q", c.args, code, out, told, c.says)
		}
	}
	for _, e := range d.exceptions("tier=b") {
		if got := d.at(d.admin, "exception", "end", "--id", e["id"].(string), "--reason", "over"); !strings.HasPrefix(got, "domain shop, tier=b: had ") {
			t.Error(got)
		}
	}
	if left := d.exceptions("tier=b"); len(left) != 0 {
		t.Error(left)
	}
}

// exceptions are those of clients with a text in their words.
func (d *desk) exceptions(search string) (all []map[string]any) {
	for line := range strings.Lines(d.at(d.admin, "exception", "list", "--search", search, "--json")) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			d.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestExceptionAlone: in a domain under review, set, list and import say what one person did alone; the second one confirms a whole list.
func TestExceptionAlone(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop("  - key: user\n    limits: [10/day]\n")
	d.at(d.admin, "rules", "apply", "--team", "shop", "--to", "enforced", "--force", "--reason", "a test", d.files)
	d.change("PATCH", "/v1/domains/shop", `{"review":true,"reason":"two people"}`)
	list := filepath.Join(d.files, "list.csv")
	write(t, list, "user,limit,for\n4713,7/day,30min\n4714,7/day,30min\n")
	bob := strings.TrimSpace(d.at(d.admin, "token", "create", "--actor", "bob", "--role", "publish", "--team", "shop", "--days", "1", "--reason", "he is of the shop"))
	for _, step := range []struct{ args, want string }{
		{"exception set shop user=4711 100/day --for 30min --reason launch", "domain shop, user=4711: has 100/day until TIME, by ops alone\n"},
		{"exception import shop " + list + " --dry-run --reason many", "domain shop: 2 exceptions would be set, by ops alone\n"},
		{"exception import shop " + list + " --reason many", "domain shop: 2 exceptions set, by ops alone\n"},
		{"exception list shop --search 4713 --no-headers", "shop  user=4713  7/day  TIME  ops alone  many\n"},
	} {
		if got := d.at(d.admin, strings.Fields(step.args)...); !strings.HasSuffix(got, step.want) {
			t.Errorf("%s\n%s\nwant %s", step.args, got, step.want)
		}
	}
	t.Setenv("WEIR_TOKEN", bob)
	write(t, list, "user,limit,for\n4713,7/day,2day\n4714,7/day,2day\n4715,7/day,30min\n4716,7/day,2day\n")
	if code, _, told := d.runs("exception", "import", "shop", list, "--reason", "many"); code != exitUsage || !strings.Contains(told, "list.csv:5:1: error: domain shop wants a second person") || strings.Contains(told, "csv:2:") {
		t.Error(code, told)
	}
	write(t, list, "user,limit,for\n4713,7/day,2day\n4714,7/day,2day\n4715,7/day,30min\n")
	if got, want := d.at(d.admin, "exception", "import", "shop", list, "--reason", "many"), "domain shop: 3 exceptions set, 1 of them by bob alone\n"; got != want {
		t.Error(got)
	}
}

// TestExceptionLongList: a list that is too long is refused at once, with what to do; so is one of which much is wrong, by its first lines.
func TestExceptionLongList(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop("  - key: user\n    limits: [10/day]\n")
	d.at(d.admin, "rules", "apply", "--team", "shop", "--to", "enforced", "--force", "--reason", "a test", d.files)
	list := filepath.Join(d.files, "list.csv")
	lines := func(n int, after string) {
		var b strings.Builder
		b.WriteString("user,limit,for\n")
		for i := range n {
			fmt.Fprintf(&b, "%d,5/day%s,1h\n", i, after)
		}
		write(t, list, b.String())
	}
	for _, c := range []struct {
		n           int
		after, says string
	}{
		{100_001, "", "there are over 100000 exceptions, and so many may come in one call; nothing was changed: send them in parts"},
		{1000, "x", "weir: 1000 lines can't be used, and nothing was changed: 100 are told, and there are 900 more"},
		{1, " zone " + strings.Repeat("x", 9<<20), "has over 8388608 bytes, and nothing was changed; split it, and import it in parts"},
	} {
		lines(c.n, c.after)
		if code, out, told := d.runs("exception", "import", "shop", list, "--reason", "many"); code != exitUsage || out != "" || !strings.Contains(told, c.says) {
			t.Errorf("exit %d, %s%.2000s; want %q", code, out, told, c.says)
		}
	}
	lines(2000, "")
	if got, want := d.at(d.admin, "exception", "import", "shop", list, "--reason", "many"), "domain shop: 2000 exceptions set\n"; got != want {
		t.Error(got)
	}
}

// TestUnblockCommand: a client is unblocked, and the answer says when that does not help.
func TestUnblockCommand(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop("  - key: user\n    limits: [2/day]\n")
	d.at(d.admin, "rules", "apply", "--team", "shop", "--to", "enforced", "--force", "--reason", "a test", d.files)
	for _, step := range []struct {
		code int
		args string
		says string
	}{
		{exitNo, "check --times 3 shop user=4711", "denied"},
		{exitYes, "unblock shop user=4711 --reason called", "The counts of 4711 were reset on 1 node. Its next request passes, unless another rule denies it."},
		{exitYes, "check shop user=4711", "allowed"},
		{exitYes, "exception set shop user=4711 0/s --for 1h --reason flood", "has 0/s"},
		{exitYes, "unblock shop user=4711 --reason called", "The limit of the rule shop/user is 0 for it (0/s), so that it goes on being denied: only another limit helps, by an exception or another rule."},
		{exitUsage, "unblock shop usr=4711 --reason called", "no active rule is for such a request"},
		{exitUsage, "unblock nosuch user=4711 --reason called", "no active rule is for such a request"},
		{exitUsage, "unblock shop user --reason called", "is no key=value"},
		{exitYes, "audit list shop", "called"},
	} {
		at, args := d.admin, strings.Fields(step.args)
		if args[0] == "check" {
			at = d.http
		}
		soon(t, step.args+" does not say "+step.says, func() bool { // an exception holds when the node has heard of it
			code, out, told := d.runsAt(at, args...)
			return code == step.code && strings.Contains(out+told, step.says)
		})
	}
}
