package source

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weir-limit/weir/rules"
)

const (
	// pollFiles is how often files are looked at without being told to: on
	// network file systems, and where the system has no watches left.
	pollFiles = 2 * time.Second
	// settle is how long files must look the same before they are read.
	settle = 100 * time.Millisecond
	// maxSettle is after how long they are read though they still change.
	maxSettle = 2 * time.Second
	// maxReads is how often files that change while they are read are read
	// again at once.
	maxReads = 3
	// maxDirs is how many folders are watched. Changes in more are found by
	// looking.
	maxDirs = 64
	// maxLinks is how many links in a row are followed, as Linux has it.
	maxLinks = 40
)

// files is rules in files.
type files struct {
	path string
	poll time.Duration
	seen sight // when they were last read
}

func newFiles(path string, o Options) *files {
	f := &files{path: path, poll: o.Poll}
	if f.poll <= 0 {
		f.poll = pollFiles
	}
	return f
}

func (f *files) read(context.Context) (set *rules.Set, err error) {
	for range maxReads {
		f.seen = look(f.path)
		if info, err := os.Stat(f.path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			// To open a pipe could take for ever, and a device has no end.
			return nil, fmt.Errorf("load rules: %s is a pipe or a device; write the rules to a file, as they are read again and again", f.path)
		}
		set, err = rules.Load(f.path)
		if f.seen.same(look(f.path)) {
			break
		}
	}
	return set, err
}

func (f *files) accepted(*rules.Set) {}

func (f *files) watch(ctx context.Context, reload <-chan struct{}, read func(forced bool)) {
	dirs := watchDirs()
	defer dirs.close()
	dirs.follow(f.path)
	poll := time.NewTicker(f.poll)
	defer poll.Stop()
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	waiting, last, latest := false, f.seen, time.Time{}
	wait := func() {
		if !waiting {
			waiting, latest = true, time.Now().Add(maxSettle)
		}
		quiet.Reset(min(settle, max(time.Until(latest), 0)))
	}
	wait() // files may have changed since they were loaded
	for {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			read(true)
			dirs.follow(f.path)
		case _, open := <-dirs.events:
			if !open {
				dirs.events = nil
			}
			wait()
		case _, open := <-dirs.errors: // some events were lost
			if !open {
				dirs.errors = nil
			}
			wait()
		case <-poll.C:
			if !waiting && !look(f.path).same(f.seen) {
				dirs.forget() // nobody told: a folder may have gone, and come again
				wait()
			}
		case <-quiet.C:
			now := look(f.path)
			if !now.same(f.seen) && !now.same(last) && time.Now().Before(latest) {
				last = now
				wait()
				continue
			}
			waiting, last = false, now
			if !now.same(f.seen) {
				read(false)
			}
			dirs.follow(f.path)
			if !look(f.path).same(f.seen) { // before it was followed
				wait()
			}
		}
	}
}

// sight is what one look at the files shows, without reading them.
type sight struct {
	names []string
	infos []fs.FileInfo
	err   string
}

func look(path string) sight {
	names, err := rules.Files(path)
	if err != nil {
		return sight{err: err.Error()}
	}
	s := sight{names: names}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return sight{err: err.Error()}
		}
		s.infos = append(s.infos, info)
	}
	return s
}

func (s sight) same(o sight) bool {
	return s.err == o.err && slices.Equal(s.names, o.names) && slices.EqualFunc(s.infos, o.infos, func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

// dirs are watched folders. Without any, because the system has no watches
// left, events and errors say nothing.
type dirs struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
	errors  <-chan error
}

func watchDirs() *dirs {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return &dirs{} // looking finds what nobody tells
	}
	return &dirs{w, w.Events, w.Errors}
}

func (d *dirs) close() {
	if d.watcher != nil {
		_ = d.watcher.Close() // nothing is waiting for it any more
	}
}

// follow watches the folders that path leads through now, and no others.
func (d *dirs) follow(path string) {
	if d.watcher == nil {
		return
	}
	want := trail(path)
	have := d.watcher.WatchList()
	for _, dir := range have {
		if !slices.Contains(want, dir) {
			_ = d.watcher.Remove(dir) // it may be gone
		}
	}
	for _, dir := range want {
		if !slices.Contains(have, dir) {
			_ = d.watcher.Add(dir) // looking finds what can't be watched
		}
	}
}

// forget drops all watches, for follow to set them anew.
func (d *dirs) forget() {
	if d.watcher == nil {
		return
	}
	for _, dir := range d.watcher.WatchList() {
		_ = d.watcher.Remove(dir) // it may be gone
	}
}

// trail is the folders, at most maxDirs, in which a change can change the rules
// at path: those of the files themselves, and those of the links on the way.
func trail(path string) []string {
	t := &trailer{}
	end := t.walk(path)
	if end == "" {
		return t.dirs
	}
	t.add(filepath.Dir(end))
	entries, err := os.ReadDir(end)
	if err != nil {
		return t.dirs // not a folder
	}
	t.add(end)
	for _, e := range entries {
		if len(t.dirs) >= maxDirs {
			break
		}
		if e.Type()&fs.ModeSymlink != 0 && !strings.HasPrefix(e.Name(), ".") {
			if file := t.walk(filepath.Join(end, e.Name())); file != "" {
				t.add(filepath.Dir(file))
			}
		}
	}
	return t.dirs
}

type trailer struct{ dirs []string }

func (t *trailer) add(dir string) {
	if len(t.dirs) < maxDirs && !slices.Contains(t.dirs, dir) {
		t.dirs = append(t.dirs, dir)
	}
}

// walk follows path, and gives what it leads to, free of links; or "" when it
// leads nowhere, and then the folder where the way ends is on the trail.
func (t *trailer) walk(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	links := 0
	at, rest := root(path)
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil {
			t.add(at)
			return ""
		}
		rest = rest[1:]
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		t.add(at)
		to, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return ""
		}
		if filepath.IsAbs(to) {
			var steps []string
			at, steps = root(to)
			rest = append(steps, rest...)
		} else {
			rest = append(strings.Split(to, string(filepath.Separator)), rest...)
		}
	}
	return at
}

// root is where an absolute path begins, and its steps from there.
func root(path string) (top string, steps []string) {
	top = filepath.VolumeName(path) + string(filepath.Separator)
	for step := range strings.SplitSeq(path[len(top)-1:], string(filepath.Separator)) {
		if step != "" {
			steps = append(steps, step)
		}
	}
	return top, steps
}
