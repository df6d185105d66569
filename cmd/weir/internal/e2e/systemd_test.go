package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const unitFile = deploy + "/weir.service"

// TestUnit lets systemd read the unit, and say how exposed it is.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := program(t, "systemd-analyze")
	text := recipe(t, unitFile, "/usr/local/bin/weir", binary)
	unit := write(t, filepath.Join(t.TempDir(), "weir.service"), text)
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), unit) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit).CombinedOutput()
	if err != nil { // more than 2.0 of 10
		t.Errorf("security: %v\n%s", err, out)
	}
}

// TestNotify is Type=notify: systemd hears when weir is ready, and when it stops.
func TestNotify(t *testing.T) {
	t.Parallel()
	if unit := recipe(t, unitFile); !strings.Contains(unit, "\nType=notify\n") || !strings.Contains(unit, "\nExecReload=/bin/kill -HUP $MAINPID\n") {
		t.Fatalf("the unit is another:\n%s", unit)
	}
	name := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	heard := func() string {
		t.Helper()
		if err := systemd.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := systemd.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	cmd := command(t, binary, serveArgs(nil)...)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+name)
	d := startDaemon(t, cmd)
	if s := heard(); s != "READY=1" {
		t.Errorf("%q", s)
	}
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if s := heard(); s != "STOPPING=1" {
		t.Errorf("%q", s)
	}
	if <-d.ended; d.err != nil {
		t.Error(d.err)
	}

	// Nobody who listens is no reason not to start.
	cmd = command(t, binary, serveArgs(nil)...)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+name+"gone")
	if d := startDaemon(t, cmd); d.stop() != nil || !strings.Contains(d.output.String(), `state="READY=1"`) {
		t.Errorf("%v\n%s", d.err, d.output)
	}
}

// TestUnitArguments starts weir as the unit does, but for where.
func TestUnitArguments(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/weir serve (.*)$`).FindStringSubmatch(recipe(t, unitFile))
	if m == nil {
		t.Fatal("the unit starts something else")
	}
	serve(t, elsewhere(t, strings.Fields(m[1]))...)
}

const adminToken = "this-is-no-secret-at-all"

// elsewhere is arguments of weir serve with the rules, token and ports of a test.
func elsewhere(t *testing.T, args []string) []string {
	t.Helper()
	rules := t.TempDir()
	write(t, filepath.Join(rules, "edge.yaml"), recipe(t, filepath.Join(recipes, "rules.yaml")))
	token := write(t, filepath.Join(t.TempDir(), "token"), adminToken+"\n")
	port := regexp.MustCompile(`:\d+$`)
	out := make([]string, len(args))
	for i, a := range args {
		a = strings.Replace(a, "/etc/weir/rules", rules, 1)
		a = strings.Replace(a, "/etc/weir/admin/token", token, 1)
		out[i] = port.ReplaceAllString(a, ":0")
	}
	return out
}

// TestImage runs what the Dockerfile copies, in a folder that has nothing else
// and can't be written, as the user that it names. It needs root for that.
func TestImage(t *testing.T) {
	t.Parallel()
	text := recipe(t, filepath.Join(deploy, "Dockerfile"))
	final := text[strings.LastIndex(text, "\nFROM "):]
	for _, line := range []string{"FROM scratch", "USER 65532:65532", "ENV WEIR_HTTP=0.0.0.0:8080 WEIR_GRPC=0.0.0.0:8081", `ENTRYPOINT ["/weir"]`, `CMD ["serve"]`} {
		if !strings.Contains(final, "\n"+line+"\n") {
			t.Errorf("the Dockerfile does not say %s", line)
		}
	}
	if made := recipe(t, "../../../../Makefile"); !strings.Contains(made, "CGO_ENABLED=0 $(GO) build -trimpath -o bin/weir ./cmd/weir") ||
		!strings.Contains(text, "CGO_ENABLED=0 go build -trimpath -o /weir ./cmd/weir") {
		t.Error("the Dockerfile builds otherwise than make build")
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED ALOUD: only root can try the image's folder and user")
	}
	root := t.TempDir()
	for _, m := range regexp.MustCompile(`(?m)^COPY --from=build (\S+) (\S+)$`).FindAllStringSubmatch(final, -1) {
		from, to := m[1], filepath.Join(root, m[2])
		if strings.HasSuffix(m[2], "/") {
			to = filepath.Join(to, filepath.Base(from))
		}
		if from == "/weir" {
			from = binary
		}
		if from != "/links/" {
			place(t, from, to)
			continue
		}
		for _, link := range regexp.MustCompile(`ln -s (\S+) /links(/\S+)`).FindAllStringSubmatch(text, -1) {
			at := filepath.Join(root, link[2])
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(link[1], at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := command(t, "/weir", "serve")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	cmd.Dir, cmd.Env = "/", []string{"WEIR_ADMIN=127.0.0.1:0"}
	for _, m := range regexp.MustCompile(`(WEIR_\w+)=0\.0\.0\.0:\d+`).FindAllStringSubmatch(final, -1) {
		cmd.Env = append(cmd.Env, m[1]+"=127.0.0.1:0") // other tests have the image's ports
	}
	d := startDaemon(t, cmd)
	if a := newClient(t).ask("GET", "http://"+d.http+"/readyz", ""); a.status != 200 {
		t.Error(a)
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	// Envoy Gateway starts it by another name.
	other := exec.CommandContext(t.Context(), "/bin/ratelimit", "--help")
	other.SysProcAttr, other.Dir = cmd.SysProcAttr, "/"
	if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), "weir ratelimit [flags]") {
		t.Errorf("%v\n%s", err, out)
	}
}

// place copies a file to where all may read it and nobody write.
func place(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		t.Logf("%s is not on this machine", from)
		return
	}
	// A process that another test starts meanwhile would hold the file open for writing, and it could not be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o555)); err != nil {
		t.Fatal(err)
	}
}
