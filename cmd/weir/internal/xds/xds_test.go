package xds

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// TestFollow: rules come and change, a bad answer leaves them and is refused with its reason, and a domain that is left out is gone.
func TestFollow(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5), xdstest.Limit("mail", 7))
	f := follow(t, c)
	f.want("mail/user 7/min fixed-window, shop/user 5/min fixed-window", "")

	c.Set(xdstest.Limit("shop", 6), xdstest.Limit("mail", 7))
	f.want("mail/user 7/min fixed-window, shop/user 6/min fixed-window", "")
	xdstest.Soon(t, func() string {
		if q := c.Last(); q.GetVersionInfo() != "2" || q.GetErrorDetail() != nil || q.GetNode().GetId() != xdstest.Node {
			return "not acknowledged: " + q.String()
		}
		return ""
	})

	c.Set(xdstest.Limit("shop", 9), `domain: "mail" descriptors { key: "user" rate_limit { requests_per_unit: 1 } }`, `domain: "mail" name: "other"`, `name: "empty"`)
	f.want("mail/user 7/min fixed-window, shop/user 6/min fixed-window", "unit is missing")
	xdstest.Soon(t, func() string {
		q := c.Last()
		for _, part := range []string{"refused, the rules before stay: mail, empty", "unit is missing", "empty domain"} {
			if q.GetVersionInfo() != "2" || q.GetErrorDetail().GetCode() != 3 || !strings.Contains(q.GetErrorDetail().GetMessage(), part) {
				return "not refused with " + part + ": " + q.String()
			}
		}
		return ""
	})
	if _, err := f.now(); source.Result(err) != "refused" {
		t.Error("the result of a bad answer:", source.Result(err))
	}

	c.Set(xdstest.Limit("shop", 8))
	f.want("shop/user 8/min fixed-window", "")
	c.Set()
	f.want("", "")
	if s := f.s.Status(); s.Refused == 0 || s.Version != "5" || !s.Connected || s.Held != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDuplicateDomain: two resources of one domain are refused, as no order of them would be right.
func TestDuplicateDomain(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	f := follow(t, c)
	c.Set(`name: "a" `+xdstest.Limit("shop", 5), `name: "b" `+xdstest.Limit("shop", 6))
	f.want("shop/user 5/min fixed-window", `duplicate domain "shop", also of the resource`)
}

// TestRestart: a control plane that was started anew and has not read all yet takes nothing away; what it still leaves out after a while is gone.
func TestRestart(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5), xdstest.Limit("mail", 7))
	f := follow(t, c, "hold=3s")
	both := "mail/user 7/min fixed-window, shop/user 5/min fixed-window"
	f.want(both, "")

	c.Stop()
	f.want(both, "connection refused")
	c.Start()
	c.Set() // it knows none of its Gateways yet
	f.want(both, "")
	if held := f.s.Status().Held; held != 2 {
		t.Error("held:", held)
	}
	c.Set(xdstest.Limit("mail", 8)) // one of them
	f.want("mail/user 8/min fixed-window, shop/user 5/min fixed-window", "")
	f.want("mail/user 8/min fixed-window", "") // the other was deleted meanwhile
	c.Set()
	f.want("", "")
}

// TestLastCopy: a start without the control plane takes the last good copy; one without both fails, or with force-start
// goes on without rules until there are some.
func TestLastCopy(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	last := filepath.Join(t.TempDir(), "folder", "last")
	f := follow(t, c, "last="+last)
	c.Set(xdstest.Limit("shop", 6))
	f.want("shop/user 6/min fixed-window", "")
	c.Set(xdstest.Limit("shop", 0), `domain: "bad" descriptors {}`)
	f.want("shop/user 6/min fixed-window", "empty key")
	xdstest.Soon(t, func() string {
		if info, err := os.Stat(last); err != nil || info.Mode().Perm() != 0o600 {
			return "no copy for its owner alone"
		}
		if k := (&keeper{file: last}); !strings.Contains(copied(k), "requests_per_unit: 6") {
			return "the copy is " + copied(k)
		}
		return ""
	})
	c.Stop()

	began := time.Now()
	second := follow(t, c, "last="+last)
	second.want("shop/user 6/min fixed-window", "connection refused")
	if took := time.Since(began); took > defaultWait {
		t.Errorf("a start with a copy waited %v", took)
	}

	if _, err := tryFollow(t, c, "wait=200ms"); source.Result(err) != "unreadable" || !isFetch(err) || !strings.Contains(err.Error(), "last good copy") {
		t.Error("a start without both:", err)
	}
	forced := follow(t, c, "wait=100ms", "force-start=true")
	if set, _ := forced.now(); set != nil {
		t.Error("rules from nowhere")
	}
	c.Start()
	c.Set(xdstest.Limit("shop", 7))
	forced.want("shop/user 7/min fixed-window", "")
	second.want("shop/user 7/min fixed-window", "")

	spoilt := filepath.Join(t.TempDir(), "last")
	if err := os.WriteFile(spoilt, []byte("no copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Stop()
	if _, err := tryFollow(t, c, "last="+spoilt, "wait=100ms"); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Error("a start with a spoilt copy:", err)
	}
}

func isFetch(err error) bool {
	_, is := errors.AsType[*source.FetchError](err)
	return is
}

// copied is the rules of a copy.
func copied(k *keeper) string {
	answer, err := k.read()
	if err != nil {
		return err.Error()
	}
	domains, err := new(book).read(answer.GetResources())
	if err != nil {
		return err.Error()
	}
	set, err := join(domains)
	if err != nil {
		return err.Error()
	}
	return string(set.Export())
}

// TestBadStart: a control plane whose rules are bad is told so, and the start fails by what is wrong with them.
func TestBadStart(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(`domain: "shop" descriptors { key: "user" rate_limit { unit: 9 requests_per_unit: 1 } }`)
	_, err := tryFollow(t, c, "wait=1s")
	if _, bad := errors.AsType[*rules.Error](err); !bad || !strings.Contains(err.Error(), `unit "9"`) {
		t.Error(err)
	}
}

// TestCheck: rules that the store can't keep are refused like bad ones.
func TestCheck(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	f := follow(t, c)
	f.s.options.Check = func(set *rules.Set) error {
		if len(set.Rules()) > 1 {
			return errors.New("the store keeps one rule")
		}
		return nil
	}
	c.Set(xdstest.Limit("shop", 5), xdstest.Limit("mail", 7))
	f.want("shop/user 5/min fixed-window", "the store keeps one rule")
	xdstest.Soon(t, func() string {
		if q := c.Last(); !strings.Contains(q.GetErrorDetail().GetMessage(), "the store keeps one rule") {
			return q.String()
		}
		return ""
	})
}

// TestReload: SIGHUP opens another stream, and tells of the rules again.
func TestReload(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Set(xdstest.Limit("shop", 5))
	f := follow(t, c)
	xdstest.Soon(t, func() string {
		if !f.s.Status().Connected {
			return "not connected"
		}
		return ""
	})
	f.mu.Lock()
	before := f.told
	f.mu.Unlock()
	f.s.Reload()
	xdstest.Soon(t, func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.told == before {
			return "nothing was told"
		}
		return ""
	})
	f.want("shop/user 5/min fixed-window", "")
}
