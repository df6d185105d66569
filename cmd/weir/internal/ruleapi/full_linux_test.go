package ruleapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// smallDisk is a folder with room for so many MiB, which grow may change.
func smallDisk(t *testing.T, mebibytes int) (dir string, grow func(mebibytes int)) {
	t.Helper()
	dir = t.TempDir()
	mount := func(n int, flags uintptr) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%dm", n))
	}
	if err := mount(mebibytes, 0); err != nil {
		t.Skip("a small disk can't be had:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(n int) {
		t.Helper()
		if err := mount(n, syscall.MS_REMOUNT); err != nil {
			t.Fatal(err)
		}
	}
}

// fill leaves no room on a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull: on a disk that is full each change is refused with the reason, what
// was answered before is there and is read, and with room again changes are made.
func TestDiskFull(t *testing.T) {
	dir, grow := smallDisk(t, 4)
	h := houseAt(t, dir)
	h.shop()
	var made []string
	propose := func(key string) said {
		return h.ask(h.admin, "POST", "/v1/rules", fmt.Sprintf(`{"domain":"shop","text":"- key: %s # %s\n  limits: [1/s]\n","to":"enforced","force":true,"reason":"x"}`, key, strings.Repeat("x", 50_000)))
	}
	for {
		key := fmt.Sprintf("k%04d", len(made))
		s := propose(key)
		if s.status != http.StatusCreated {
			break
		}
		made = append(made, key)
	}
	fill(t, dir)
	for quota := 5000; ; quota++ { // what changes least fits in for longest
		if s := h.ask(h.admin, "PUT", "/v1/teams/shop", fmt.Sprintf(`{"quota":%d,"reason":"x"}`, quota)); s.status != http.StatusOK {
			break
		}
	}
	etag := h.must(h.admin, "GET", "/v1/rules/shop/k0000", "").etag
	domain := h.must(h.admin, "GET", "/v1/domains/shop", "").etag
	file := h.must(h.admin, "GET", "/v1/domains/shop/file", "").text
	for _, c := range []struct{ method, path, body, match string }{
		{"POST", "/v1/rules", `{"domain":"shop","text":"- {key: last, limits: [1/s]}","reason":"x"}`, ""},
		{"PUT", "/v1/rules/shop/k0000", `{"text":"- {key: k0000, limits: [2/s]}","to":"enforced","force":true,"reason":"x"}`, etag},
		{"DELETE", "/v1/rules/shop/k0000?to=enforced&reason=x", "", etag},
		{"POST", "/v1/rules/shop/k0000/override", `{"mode":"open","seconds":60,"reason":"x"}`, ""},
		{"PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", file + "  - {key: last, limits: [1/s]}\n", domain},
		{"POST", "/v1/domains", `{"name":"stock","team":"shop","reason":"x"}`, ""},
		{"DELETE", "/v1/domains/shop?confirm=shop&reason=x", "", domain},
		{"POST", "/v1/tokens", `{"actor":"ann","role":"read","teams":["shop"],"reason":"x"}`, ""},
		{"PUT", "/v1/teams/shop", `{"quota":5000,"reason":"x"}`, ""},
	} {
		var fields []string
		if c.match != "" {
			fields = []string{"If-Match", c.match}
		}
		s := h.ask(h.admin, c.method, c.path, c.body, fields...)
		if s.status != http.StatusServiceUnavailable || !strings.Contains(s.text, "the disk is full: make room; nothing was changed") {
			t.Errorf("%s %s: %d %s", c.method, c.path, s.status, s.text)
		}
	}
	listed := func() (ids []string) {
		for _, r := range h.must(h.admin, "GET", "/v1/rules?domain=shop", "").json["rules"].([]any) {
			ids = append(ids, r.(map[string]any)["id"].(string))
		}
		return ids
	}
	if now := listed(); len(made) < 10 || !slices.Equal(now, made) {
		t.Errorf("%d were made, and there are %v", len(made), now)
	}
	if now := h.must(h.admin, "GET", "/v1/domains/shop/file", "").text; now != file {
		t.Errorf("the file has changed, to %d bytes from %d", len(now), len(file))
	}
	grow(64)
	if s := propose("later"); s.status != http.StatusCreated {
		t.Error("there is room, and it is not used:", s.text)
	}
	if now := listed(); !slices.Equal(now, append(made, "later")) {
		t.Error(now)
	}
	again, err := rulestore.Open(t.Context(), dir) // which looks for damage
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
