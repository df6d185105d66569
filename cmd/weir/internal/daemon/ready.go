package daemon

import (
	"fmt"
	"net"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
	"github.com/weir-limit/weir/rules"
)

// sayReady tells once that every listener accepts, and how to ask.
func (d *Daemon) sayReady(o *listeners) {
	set := d.limiter.Set()
	httpAt, grpcAt, adminAt, respAt := listen.AsFlag(o.httpAt.Addr()), listen.AsFlag(o.grpcAt.Addr()), o.adminAt.Addr(), DefaultRESP
	if o.respAt != nil {
		respAt = o.respAt.Addr().String()
	}
	_, err := fmt.Fprintf(
		d.config.Stdout, "weir ready http=%s grpc=%s admin=%s resp=%s store=%s domains=%d rules=%d\ntry: %s\n",
		httpAt, grpcAt, adminAt, respAt, d.storage.scheme, len(set.Domains()), len(set.Rules()), d.tryThis(o, set),
	)
	if err != nil {
		d.config.Log.Warn("the daemon can't report that it is ready", "error", err)
	}
	d.config.Log.Info("ready", "http", httpAt, "grpc", grpcAt, "admin", adminAt.String(), "resp", respAt, "store", d.storage.scheme, "rules", len(set.Rules()))
}

// tryThis is what to do first: ask, or where there are no rules, make one.
func (d *Daemon) tryThis(o *listeners, set *rules.Set) string {
	if d.feed == nil || len(set.Domains()) > 0 {
		return d.tryIt(o.httpAt.Addr(), set)
	}
	at, _, _ := d.config.external() // it was checked
	switch place := reachable(o.adminAt.Addr()); {
	case at != "":
	case d.config.speaksTLS("admin"):
		at = "https://" + place
	default:
		at = "http://" + place
	}
	return "open " + at + webui.Home + " in a browser, sign in with a token, and make a domain; or by files: weir rules apply --team TEAM --reason TEXT DIR"
}

// tryIt is a shell command that asks /v1/check and gets a decision, if the
// rules have one.
func (d *Daemon) tryIt(at net.Addr, set *rules.Set) string {
	options, place := "", reachable(at)
	if at.Network() == "unix" {
		options, place = " --unix-socket "+quoted(at.String()), "localhost"
	}
	scheme := " http://"
	if d.config.speaksTLS("http") {
		var safely string
		safely, place = d.safely(place)
		options, scheme = options+safely, " https://"
	}
	return "curl -sS" + options + " -d " + quoted(string(httpapi.AppendCheck(nil, example(set)))) + scheme + place + "/v1/check"
}

// safely is how curl comes to believe the certificate: what options it needs, and
// the place to ask, which has a name that is in the certificate.
func (d *Daemon) safely(place string) (options, named string) {
	options = " --cacert " + quoted(d.config.TLSCert)
	if d.config.TLSClientCA != "" {
		options += " --cert FILE --key FILE"
	}
	host, port, err := net.SplitHostPort(place)
	leaf := d.keys.tls.Leaf()
	if err != nil || leaf.VerifyHostname(host) == nil || len(leaf.DNSNames) == 0 {
		return options, place
	}
	named = net.JoinHostPort(strings.ReplaceAll(leaf.DNSNames[0], "*", "weir"), port)
	return options + " --connect-to " + named + ":" + place, named
}

// quoted is text as a shell takes it for one word.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// reachable is an address by which this machine reaches a listener.
func reachable(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
}

// example is a request that a limit of the set decides about. Without any, it
// asks the first domain all the same.
func example(set *rules.Set) *rules.Request {
	asked := func(domain string, entries ...rules.Entry) *rules.Request {
		return &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{{Entries: entries, Cost: 1}}}
	}
	for _, rule := range set.Rules() {
		q := asked(rule.Domain, rule.Example()...)
		if found, _ := set.Match(q.Domain, &q.Descriptors[0]); len(found) > 0 && !found[0].Unlimited {
			return q
		}
	}
	for _, domain := range set.Domains() {
		return asked(domain, rules.Entry{Key: "client_id", Value: "alice"})
	}
	return asked("demo", rules.Entry{Key: "client_id", Value: "alice"})
}
