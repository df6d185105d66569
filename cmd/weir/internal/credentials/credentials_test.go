package credentials

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir/internal/certtest"
)

var never = time.Time{}

// server opens texts as the files of a server; nil is no file.
func server(t *testing.T, certificate, key, ca []byte) (*Server, error) {
	t.Helper()
	file := func(flag string, text []byte) File {
		if text == nil {
			return File{flag, ""}
		}
		return File{flag, certtest.File(t, "file", text)}
	}
	return OpenServer(time.Now(), file("--cert", certificate), file("--key", key), file("--ca", ca))
}

// TestBadServer: each fault names its file and says what to do.
func TestBadServer(t *testing.T) {
	ca := certtest.NewCA(t)
	a, b := ca.Issue(t), ca.Issue(t)
	old, early := ca.IssueFrom(t, time.Now().Add(-2*time.Hour), time.Hour), ca.IssueFrom(t, time.Now().Add(time.Hour), time.Hour)
	locked := []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	for name, c := range map[string]struct {
		certificate, key, ca []byte
		flag, says           string
	}{
		"another's key":       {a.Certificate, b.Key, nil, "--key", "it is not the key of the certificate; give the two"},
		"turned around":       {a.Key, a.Certificate, nil, "--cert", "PEM inputs may have been switched"},
		"chain turned around": {append(bytes.Clone(ca.PEM), a.Certificate...), a.Key, nil, "--key", "the server's own first"},
		"no certificate":      {[]byte("nothing"), a.Key, nil, "--cert", "write the certificate in PEM"},
		"half a certificate":  {a.Certificate[:200], a.Key, nil, "--cert", "write the certificate in PEM"},
		"half a key":          {a.Certificate, a.Key[:80], nil, "--key", "write one private key in PEM"},
		"empty key":           {a.Certificate, []byte{}, nil, "--key", "write one private key in PEM"},
		"garbage in a key":    {a.Certificate, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), nil, "--key", "write one private key in PEM"},
		"locked key":          {a.Certificate, locked, nil, "--key", "openssl pkey"},
		"expired":             {old.Certificate, old.Key, nil, "--cert", "renew it"},
		"not yet":             {early.Certificate, early.Key, nil, "--cert", "set the clock"},
		"empty CA":            {a.Certificate, a.Key, []byte{}, "--ca", "there is no certificate in it"},
		"CA with a key":       {a.Certificate, a.Key, append(bytes.Clone(ca.PEM), a.Key...), "--ca", "certificates only"},
		"garbage in a CA":     {a.Certificate, a.Key, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "--ca", "write the certificates of CAs in PEM"},
		"expired CA":          {a.Certificate, a.Key, old.Certificate, "--ca", "renew it"},
		"too large":           {bytes.Repeat([]byte("\n"), maxFile+1), a.Key, nil, "--cert", "is it the right file?"},
	} {
		_, err := server(t, c.certificate, c.key, c.ca)
		bad, ok := errors.AsType[*Error](err)
		if !ok || bad.File.Flag != c.flag || !strings.Contains(bad.Text, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := server(t, a.Certificate, a.Key, append(bytes.Clone(old.Certificate), ca.PEM...)); err != nil {
		t.Error("an old CA beside a good one:", err)
	}
	for path, says := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "--cert", t.TempDir(): "it is no file",
	} {
		if _, err := OpenServer(time.Now(), File{"--cert", path}, File{"--key", path}, File{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Error(err)
		}
	}
}

// TestLook: a change counts when two looks see the same, what is bad changes
// nothing and is told once, and what is well again is told.
func TestLook(t *testing.T) {
	const one, two = "0123456789abcdef", "fedcba9876543210"
	path := certtest.File(t, "tokens", []byte(one))
	s, err := OpenSecrets(never, File{"--tokens", path})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		text   string // "" leaves the file, "-" takes it away
		atOnce bool
		news   bool
		bad    bool
		has    string
	}{
		{"", false, false, false, one},
		{two, false, false, false, one},
		{"", false, true, false, two},
		{"", false, false, false, two},
		{one, false, false, false, two}, // it goes on changing
		{one + "\n" + two, false, false, false, two},
		{"", false, true, false, one},
		{two, true, true, false, two},
		{"short", false, false, false, two},
		{"", false, true, true, two},
		{"", false, false, true, two},
		{"shorter", true, true, true, two},
		{two, false, false, false, two}, // as before
		{"", false, true, false, two},
		{"-", false, false, false, two},
		{"", false, true, true, two},
		{one, true, true, false, one},
	} {
		switch step.text {
		case "":
		case "-":
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		default:
			certtest.Write(t, path, []byte(step.text))
		}
		news, err := s.Look(never, step.atOnce)
		if news != step.news || (err != nil) != step.bad || !s.Has([]byte(step.has)) {
			t.Errorf("step %d: news %v, %v, has %v", i, news, err, s.Has([]byte(step.has)))
		}
		if err != nil && err.Error() != s.Failed() {
			t.Errorf("step %d: %v, but failed %q", i, err, s.Failed())
		}
	}
	if s.Failed() != "" || s.Has([]byte(two)) {
		t.Error(s.Failed())
	}
}

// TestHangingDisk: who asks how the files are does not wait for who reads them.
func TestHangingDisk(t *testing.T) {
	reading, disk, said := make(chan struct{}), make(chan struct{}), make(chan string)
	f := &Files[int]{parse: func([][]byte, time.Time) (int, error) {
		close(reading)
		<-disk
		return 1, nil
	}}
	go func() { _, _ = f.Look(never, true) }() // it fails nowhere
	<-reading
	defer close(disk)
	go func() { said <- f.Failed() }()
	select {
	case failed := <-said:
		if failed != "" {
			t.Error(failed)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the disk")
	}
}

// TestTurnedLink: what Kubernetes does with a secret.
func TestTurnedLink(t *testing.T) {
	dir, ca := t.TempDir(), certtest.NewCA(t)
	turn := func(version string) {
		p := ca.Issue(t)
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		certtest.Write(t, filepath.Join(dir, version, "tls.crt"), p.Certificate)
		certtest.Write(t, filepath.Join(dir, version, "tls.key"), p.Key)
		if err := errors.Join(os.Symlink(version, filepath.Join(dir, "new")), os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	turn("1")
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenServer(time.Now(), File{"--cert", filepath.Join(dir, "tls.crt")}, File{"--key", filepath.Join(dir, "tls.key")}, File{})
	if err != nil {
		t.Fatal(err)
	}
	first := s.Leaf()
	turn("2")
	for i, want := range []bool{false, true, false} {
		if news, err := s.Look(time.Now(), false); news != want || err != nil {
			t.Error(i, news, err)
		}
	}
	if s.Leaf().Equal(first) {
		t.Error("the old certificate is in force")
	}
}

// TestExpires: a certificate that is not good yet is, later, though its file
// does not change.
func TestExpires(t *testing.T) {
	ca := certtest.NewCA(t)
	now := time.Now()
	certificate, key := ca.Issue(t).Files(t)
	s, err := OpenServer(now, File{"--cert", certificate}, File{"--key", key}, File{})
	if err != nil {
		t.Fatal(err)
	}
	next := ca.IssueFrom(t, now.Add(time.Hour), time.Hour)
	certtest.Write(t, certificate, next.Certificate)
	certtest.Write(t, key, next.Key)
	if news, err := s.Look(now, true); !news || err == nil {
		t.Error(news, err)
	}
	if news, err := s.Look(now.Add(90*time.Minute), false); !news || err != nil {
		t.Error(news, err)
	}
}

func TestBadSecrets(t *testing.T) {
	for text, says := range map[string]string{
		"":                               "there is nothing in it",
		"\n\r\n":                         "there is nothing in it",
		"0123456789abcde":                "line 1 has 15 characters and can be guessed",
		"0123456789abcdef\nshort":        "line 2 has 5 characters",
		"# the token of today":           "line 1 has a space",
		"0123456789abcdeé":               "not ASCII",
		"0123456789abcdef\x00":           "not ASCII",
		strings.Repeat("x", maxSecret+1): "there may be 1024",
		strings.Repeat("0123456789abcdef\n", maxSecrets+1): "line 17 is one too many",
	} {
		_, err := OpenSecrets(never, File{"--tokens", certtest.File(t, "tokens", []byte(text))})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "0123") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSecrets: what is in the file opens, and nothing else does.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.StringMatching(`[!-~]{16,40}`)
		in := rapid.SliceOfN(word, 1, maxSecrets).Draw(r, "in")
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(r, "end")
		path := filepath.Join(dir, "tokens")
		if err := os.WriteFile(path, []byte(strings.Join(in, end)+end), 0o600); err != nil {
			r.Fatal(err)
		}
		s, err := OpenSecrets(never, File{"--tokens", path})
		if err != nil {
			r.Fatal(err)
		}
		for _, one := range in {
			if !s.Has([]byte(one)) || s.Has([]byte(one+"\n")) {
				r.Fatal(one)
			}
		}
		other := rapid.String().Filter(func(o string) bool {
			return !slices.Contains(in, o)
		}).Draw(r, "other")
		if s.Has([]byte(other)) {
			r.Fatal(other)
		}
	})
}

// TestClient: a token goes where it belongs, as the file has it by then, and
// nowhere else.
func TestClient(t *testing.T) {
	var seen []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("redirected") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		if r.URL.Path == "/away" {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	path := certtest.File(t, "token", []byte("0123456789abcdef\nfedcba9876543210\n"))
	carry, err := (&Client{Token: File{"--token-file", path}}).Transport(u)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: carry}).Do(r)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	if err := get("/"); err != nil {
		t.Error(err)
	}
	certtest.Write(t, path, []byte("fedcba9876543210"))
	if err := get("/away"); err == nil || !strings.Contains(err.Error(), "is another daemon") {
		t.Error(err)
	}
	certtest.Write(t, path, []byte("short"))
	if err := get("/"); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Error(err)
	}
	if got := strings.Join(seen, ", "); got != "Bearer 0123456789abcdef, Bearer fedcba9876543210" {
		t.Error(got)
	}
	ca := File{"--ca", certtest.File(t, "ca", certtest.NewCA(t).PEM)}
	if _, err := (&Client{CA: ca}).Transport(u); err == nil || !strings.Contains(err.Error(), "write https://"+u.Host) {
		t.Error(err)
	}
	u.Scheme = "https"
	for _, c := range []Client{
		{Certificate: File{"--cert", ca.Path}, Key: File{"--key", ""}},
		{Certificate: File{"--cert", ""}, Key: File{"--key", ca.Path}},
	} {
		if _, err := c.Transport(u); err == nil || !strings.Contains(err.Error(), "go together") {
			t.Error(err)
		}
	}
}

// TestSharedKeys: the keys of a file are those written there, the first of them
// first, and what is none is refused with what to write.
func TestSharedKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	first, second := strings.Repeat("0a", 32), strings.Repeat("FF", 16)
	for text, want := range map[string]string{
		first + "\n" + second + "\r\n\n":     "",
		"":                                   "there is nothing in it",
		first + "\nsecret":                   "line 2 is no key; write 32, 48 or 64 hexadecimal digits",
		first[2:]:                            "line 1 is no key",
		strings.Repeat(first+"\n", 5):        "line 5 is one too many",
		"# a comment\n" + first:              "line 1 is no key",
		strings.Repeat("zz", 32) + "\n":      "line 1 is no key",
		strings.Repeat("ab", 24) + " \n":     "line 1 is no key",
		second + "\n" + strings.ToLower("A"): "line 2 is no key",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := OpenSharedKeys(never, File{"--cluster-key-file", path})
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), first) {
				t.Errorf("%.20q: %v, want %q", text, err, want)
			}
		case err != nil || len(keys.Value()) != 2 || len(keys.Value()[0]) != 32 || len(keys.Value()[1]) != 16:
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestExposed: a secret that every user may read is told of, and a certificate is none.
func TestExposed(t *testing.T) {
	certificate, key := certtest.NewCA(t).Issue(t).Files(t)
	tokens := certtest.File(t, "tokens", []byte("0123456789abcdef"))
	shared := certtest.File(t, "cluster.key", []byte("0123456789abcdef0123456789abcdef"))
	now := time.Now()
	server, bad := OpenServer(now, File{"--cert", certificate}, File{"--key", key}, File{})
	secrets, worse := OpenSecrets(now, File{"--tokens", tokens})
	keys, worst := OpenSharedKeys(now, File{"--cluster-key-file", shared})
	if err := errors.Join(bad, worse, worst, os.Chmod(certificate, 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, one := range map[string]interface{ Exposed() string }{key: server, tokens: secrets, shared: keys} {
		for mode, want := range map[os.FileMode]string{0o600: "", 0o640: "", 0o644: "(mode 0644)", 0o602: "(mode 0602)"} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if said := one.Exposed(); (said == "") != (want == "") || !strings.Contains(said, want) || want != "" && !strings.Contains(said, "chmod o= "+path) {
				t.Errorf("%s of mode %o: %q", path, mode, said)
			}
		}
	}
}
