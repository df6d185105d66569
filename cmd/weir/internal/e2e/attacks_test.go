package e2e

import (
	"strings"

	"golang.org/x/net/http2"
)

// attack is a known way to have a server of HTTP/2 work, or remember, far more than its client does.
type attack struct {
	number string // by which it is known
	name   string
	begin  func(a *attacker)            // is sent first; nil: nothing
	each   func(a *attacker, id uint32) // is sent again and again; nil: nothing more is
	deaf   bool                         // the attacker reads nothing
	ends   string                       // what the server hangs up with; empty: each costs no more than the call that it is
	reason string                       // for which weir_refused_total counts the connection
}

const (
	calm  = "ENHANCE_YOUR_CALM: too many frames"
	flood = "flood"
)

// attacks are those that are known by a number, and their next of kin.
var attacks = []attack{
	{
		number: "CVE-2019-9511", name: "data dribble", ends: calm, reason: flood,
		begin: func(a *attacker) { a.sets(http2.SettingInitialWindowSize, 1) },
		each: func(a *attacker, id uint32) {
			a.asks(id, a.large)
			for range 50 {
				a.lets(id, 1)
			}
		},
	},
	{
		number: "CVE-2019-9512", name: "ping flood", ends: calm, reason: flood,
		each: func(a *attacker, _ uint32) { a.raw(http2.FramePing, 0, "12345678") },
	},
	{
		number: "CVE-2019-9513", name: "resource loop", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			_ = a.WritePriority(1+id%8, http2.PriorityParam{StreamDep: 1 + (id+2)%8, Exclusive: true}) // a buffer takes all
		},
	},
	{
		number: "CVE-2019-9514", name: "reset flood: heads that are none", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) { a.head(id, pack(":method", "POST")) },
	},
	{
		number: "CVE-2019-9515", name: "settings flood", ends: calm, reason: flood,
		each: func(a *attacker, _ uint32) { a.sets(http2.SettingMaxFrameSize) },
	},
	{
		number: "CVE-2019-9516", name: "fields without name and value", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			a.head(id, append(a.heads[:len(a.heads):len(a.heads)], strings.Repeat("\x40\x80\x80", 100)...))
		},
	},
	{
		number: "CVE-2019-9517", name: "answers that nobody reads", deaf: true, reason: "unread",
		ends: "write", each: func(a *attacker, id uint32) { a.asks(id, a.large) },
	},
	{
		number: "CVE-2019-9517", name: "answers that have no window", ends: "ENHANCE_YOUR_CALM: a window must open", reason: "unread",
		begin: func(a *attacker) {
			a.sets(http2.SettingInitialWindowSize, 0)
			for id := uint32(1); id < 2*4000; id += 2 {
				a.asks(id, a.large)
			}
		},
	},
	{
		number: "CVE-2019-9518", name: "empty frames", ends: calm, reason: flood,
		begin: func(a *attacker) { a.head(1, a.heads) },
		each:  func(a *attacker, _ uint32) { a.raw(http2.FrameData, 1, "") },
	},
	{
		number: "CVE-2019-9518", name: "empty continuations", ends: calm, reason: flood,
		begin: func(a *attacker) { a.raw(http2.FrameHeaders, 1, "\x83") },
		each:  func(a *attacker, _ uint32) { a.raw(http2.FrameContinuation, 1, "") },
	},
	{
		number: "CVE-2023-44487", name: "rapid reset", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			a.head(id, a.heads)
			a.resets(id)
		},
	},
	{
		number: "CVE-2023-44487", name: "rapid reset of calls that are whole",
		each: func(a *attacker, id uint32) {
			a.asks(id, a.small)
			a.resets(id)
		},
	},
	{
		number: "CVE-2023-45288", name: "continuations without end", ends: calm, reason: flood,
		begin: func(a *attacker) { a.raw(http2.FrameHeaders, 1, "\x83") },
		each: func(a *attacker, _ uint32) {
			a.raw(http2.FrameContinuation, 1, "\x00\x01x\x7f\x9d\x0f"+strings.Repeat("y", 2060))
		},
	},
	{
		number: "CVE-2025-8671", name: "resets that the server makes", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			a.head(id, a.heads)
			switch id % 8 {
			case 1:
				a.lets(id, 0)
			case 3:
				a.lets(id, 1<<31-1)
			case 5:
				a.raw(http2.FramePriority, id, "")
			default:
				a.head(id, a.heads) // a second time
			}
		},
	},
	{
		number: "CVE-2025-8671", name: "the same, of calls that have goroutines", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			a.head(id, a.watch)
			_ = a.WriteData(id, true, make([]byte, 5)) // a buffer takes all
			a.lets(id, 0)
		},
	},
	{
		number: "CVE-2026-97032", name: "sizes of the table of fields", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			a.asks(id, a.small)
			a.sets(http2.SettingHeaderTableSize, 0, 4096, id%4096)
		},
	},
	{
		number: "CVE-2026-97032", name: "the same, as slowly as a client may",
		each: func(a *attacker, id uint32) {
			a.asks(id, a.small)
			if id%8 == 1 {
				a.sets(http2.SettingHeaderTableSize, id*37%4096)
			}
		},
	},
	{
		number: "CVE-2026-78659", name: "heads that announce trailers", ends: calm, reason: flood,
		each: func(a *attacker, id uint32) {
			a.head(id, append(pack("trailer", strings.Repeat("x,", 7500)), a.watch...))
		},
	},
	{
		number: "CVE-2026-78669", name: "windows of many streams", ends: calm, reason: flood,
		begin: func(a *attacker) {
			a.sets(http2.SettingInitialWindowSize, 0)
			for id := uint32(1); id < 2*4000; id += 2 {
				a.asks(id, a.small)
			}
		},
		each: func(a *attacker, id uint32) { a.sets(http2.SettingInitialWindowSize, 0, id%2, 0) },
	},
	{
		number: "CVE-2016-6581", name: "HPACK bomb", ends: "ENHANCE_YOUR_CALM: the fields", reason: flood,
		each: func(a *attacker, id uint32) {
			block := "\x40\x01x\x7f\xa1\x1e" + strings.Repeat("y", 4000) + strings.Repeat("\xbe", 8000)
			a.head(id, []byte(block))
		},
	},
	{
		number: "slow", name: "a head that stops", ends: "ENHANCE_YOUR_CALM: a call must arrive", reason: "slow",
		begin: func(a *attacker) { a.raw(http2.FrameHeaders, 1, "\x83") },
	},
	{
		number: "slow", name: "a frame that stops", ends: "ENHANCE_YOUR_CALM: a call must arrive", reason: "slow",
		begin: func(a *attacker) {
			a.head(1, a.heads)
			a.text.WriteString("\x00\x40\x00\x00\x00\x00\x00\x00\x01half of it")
		},
	},
}
