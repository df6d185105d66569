package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// TestStart does what the pages of docs/start tell a reader to do, in a folder of its own
// beside the repository, which is ../weir there:
//
//   - A block that begins with a comment, # NAME or // NAME, is that file.
//   - A block marked console is commands and what they print. In what they print, … stands for
//     any text, and alone on a line for any lines.
//   - The last command of a block marked console stays runs until the page ends. It prints
//     to stdout, somewhere, the lines that the block shows; its log goes to stderr.
//   - A block marked sh is not run: it fetches or installs something.
//
// Ports are others in the test, for those of the page may be in use, and programs wait longer for weir.
func TestStart(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(absolute(t, "../../../../docs/start/*.md"))
	if err != nil || len(pages) < 8 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			newReader(t, page).read(t)
		})
	}
}

// reader is somebody who follows a page.
type reader struct {
	page     string
	dir      string
	env      []string
	to, from map[string]string // ports of the page to those of the test, and back
}

func newReader(t *testing.T, name string) *reader {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []struct{ word, program string }{
		{"node ", "node"}, {"python3 ", "python3"}, {"nginx ", "nginx"}, {"redis-server ", "redis-server"}, {"psql ", "psql"}, {"", "bash"}, {"", "curl"},
	} {
		if bytes.Contains(text, []byte("\n$ "+needed.word)) {
			program(t, needed.program)
		}
	}
	root := t.TempDir()
	r := &reader{page: string(text), dir: filepath.Join(root, "work")}
	bin := filepath.Join(root, "bin")
	for _, err := range []error{
		os.Mkdir(r.dir, 0o700), os.Mkdir(bin, 0o700), os.Symlink(binary, filepath.Join(bin, "weir")),
		os.Symlink(absolute(t, "../../../.."), filepath.Join(root, "weir")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")+":/usr/sbin", "HOME="+root, "XDG_CACHE_HOME="+filepath.Join(root, "cache"), "GOWORK=", "GOFLAGS=")
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		r.env = append(r.env, name+"="+strings.TrimSpace(string(value)))
	}
	r.ports(t)
	return r
}

// ports gives each port of the page another one, and the daemon's own ports, too.
func (r *reader) ports(t *testing.T) {
	t.Helper()
	named := map[string]string{"8080": "WEIR_HTTP", "8081": "WEIR_GRPC", "8082": "WEIR_ADMIN", "8083": "WEIR_CLUSTER"}
	r.to, r.from = map[string]string{}, map[string]string{}
	add := func(port string) {
		if r.to[port] != "" {
			return
		}
		free := porttest.Free(t)
		_, other, _ := strings.Cut(free, ":")
		r.to[port], r.from[other] = other, port
		if name := named[port]; name != "" {
			r.env = append(r.env, name+"="+free)
		}
	}
	for port := range named {
		add(port)
	}
	for _, m := range regexp.MustCompile(`(?:127\.0\.0\.1:|--port )(\d{4,5})\b`).FindAllStringSubmatch(r.page, -1) {
		add(m[1])
	}
}

// swap replaces ports in a text.
func swap(text string, ports map[string]string) string {
	return regexp.MustCompile(`\b\d{4,5}\b`).ReplaceAllStringFunc(text, func(n string) string {
		if other := ports[n]; other != "" {
			return other
		}
		return n
	})
}

func (r *reader) read(t *testing.T) {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```(\\w+)( stays)?\n(.*?)^```$").FindAllStringSubmatch(r.page, -1)
	file := regexp.MustCompile(`^(?://|#) (\S+\.\w+)\n`)
	sessions := 0
	for _, block := range blocks {
		kind, stays, text := block[1], block[2] != "", block[3]
		name := file.FindStringSubmatch(text)
		switch {
		case kind == "sh":
		case kind == "console":
			sessions++
			r.session(t, text, stays)
		case name == nil:
			t.Errorf("no reader can use this block, which is neither a file nor a session:\n%s", text)
		default:
			at := filepath.Join(r.dir, name[1])
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, at, patient(swap(text, r.to)))
		}
	}
	if sessions < 3 {
		t.Errorf("found %d sessions", sessions)
	}
}

// session runs the commands of a block.
func (r *reader) session(t *testing.T, text string, stays bool) {
	t.Helper()
	commands := strings.Split("\n"+text, "\n$ ")[1:]
	if len(commands) == 0 {
		t.Fatalf("no command in\n%s", text)
	}
	for i, part := range commands {
		lines := strings.Split(strings.TrimSuffix(part, "\n"), "\n")
		ends := 1 // lines of the command
		for ends < len(lines) && strings.HasSuffix(lines[ends-1], `\`) {
			ends++
		}
		r.run(t, strings.Join(lines[:ends], "\n"), lines[ends:], stays && i == len(commands)-1)
	}
}

// asked is a command that asks the admin listener, at the port that this has in the test.
func (r *reader) asked(command string) string {
	if strings.Contains(command, "--addr ") {
		return command
	}
	return regexp.MustCompile(`\bweir (?:token|rules|audit) \w+`).ReplaceAllString(command, "$0 --addr http://127.0.0.1:8082")
}

// run runs a command, and compares what it prints.
func (r *reader) run(t *testing.T, command string, prints []string, stays bool) {
	t.Helper()
	var pattern strings.Builder
	for _, line := range prints {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	want := regexp.MustCompile(`\A` + pattern.String() + `\z`)
	if stays {
		want = regexp.MustCompile(`(?m)^` + pattern.String())
	}
	limit := 2 * time.Minute
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	if !stays {
		defer time.AfterFunc(limit, cancel).Stop()
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", swap(r.asked(command), r.to))
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	said, logged := new(output), new(output)
	cmd.Stdout, cmd.Stderr = said, said
	if stays {
		cmd.Stderr = logged
	}
	printed := func() string { return strings.ReplaceAll(swap(said.String(), r.from), "\r", "") }
	if !stays {
		defer cancel()
		err := cmd.Run()
		if got := printed(); !want.MatchString(got) {
			t.Fatalf("$ %s\nprinted\n%s\n(%v), not\n%s", command, got, err, strings.Join(prints, "\n"))
		}
		return
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended: //nolint:errcheck // it was told to end
		case <-time.After(20 * time.Second):
			cancel()
			<-ended //nolint:errcheck // it was killed
		}
		cancel()
	})
	for begin := time.Now(); !want.MatchString(printed()); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("$ %s\nended (%v) and printed\n%s%s", command, err, printed(), logged)
		default:
		}
		if time.Since(begin) > limit {
			t.Fatalf("$ %s\nprinted\n%s%s\nnot\n%s", command, printed(), logged, strings.Join(prints, "\n"))
		}
	}
}
