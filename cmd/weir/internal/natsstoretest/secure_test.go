package natsstoretest

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/certtest"
)

// TestUsers: a user with a password, one whose password is in a file that changes, a token, one in a
// file, and a key.
func TestUsers(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()        // it was made just now
	public, _ := pair.PublicKey() // likewise
	file, wrong, seedFile := certtest.File(t, "password", []byte("secret-word\n")), certtest.File(t, "wrong", []byte("secret-other\n")), certtest.File(t, "seed", seed)
	users := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "weir", Password: "secret-word"}}
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
	}).Addr
	token := natstest.Start(t, func(o *server.Options) { o.Authorization = "secret-word" }).Addr
	for url, says := range map[string]string{
		"nats://weir:secret-word@" + users:                 "",
		"nats://weir@" + users + "?password-file=" + file:  "",
		"nats://" + users + "?nkey=" + seedFile:            "",
		"nats://secret-word@" + token:                      "",
		"nats://" + token + "?password-file=" + file:       "",
		"nats://" + users:                                  "check user, password",
		"nats://weir@" + users + "?password-file=" + wrong: "check user, password",
		"nats://" + token + "?nkey=" + seedFile:            "nkeys not supported by the server",
	} {
		_, err := take(t.Context(), dial(t, url), "10/day", "k")
		if says == "" && err != nil {
			t.Errorf("%s: %v", url, err)
		} else if says != "" {
			want(t, err, says)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("a secret in %v", err)
		}
	}
	s := dial(t, "nats://weir@"+users+"?password-file="+wrong)
	if _, err := take(t.Context(), s, "10/day", "k"); err == nil {
		t.Error("a wrong password opens")
	}
	certtest.Write(t, wrong, []byte("secret-word\n"))
	passes(t, s, "10/day", "k")
}

// TestTLS: with a CA of its own, and a certificate where the server asks for one.
func TestTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	authority := certtest.File(t, "ca.pem", ca.PEM)
	own, ownKey := ca.Issue(t, "client").Files(t)
	addr := natstest.Start(t, func(o *server.Options) {
		o.TLS, o.TLSVerify = true, true
		o.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{ca.Issue(t, "127.0.0.1").TLS(t)}, ClientCAs: ca.Pool(),
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		}
	}).Addr
	s := dial(t, "nats://"+addr+"?ca="+authority+"&cert="+own+"&key="+ownKey)
	passes(t, s, "10/day", "k")
	if st, err := s.Status(t.Context()); err != nil || !st.TLS || st.Server != addr || st.Version == "" || st.Replicas != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	_, err := take(t.Context(), dial(t, "nats://"+addr), "10/day", "k")
	want(t, err, addr, "certificate signed by unknown authority")
	_, err = take(t.Context(), dial(t, "nats://"+addr+"?ca="+authority), "10/day", "k")
	want(t, err, addr, "nothing was decided")
	plain := natstest.Start(t).Addr
	_, err = take(t.Context(), dial(t, "nats://"+plain+"?tls=1"), "10/day", "k")
	want(t, err, plain, "secure connection not available")
}
