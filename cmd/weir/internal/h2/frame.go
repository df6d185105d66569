package h2

import "encoding/binary"

// The kinds of frames (RFC 9113, 6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9
)

// Flags of frames.
const (
	flagAck        = 1 // of settings and pings
	flagEndStream  = 1 // of data and headers
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32
)

// Code is why a stream or a connection ends (RFC 9113, 7).
type Code uint32

// The codes.
const (
	NoError         Code = 0
	ProtocolError   Code = 1
	InternalError   Code = 2
	FlowControl     Code = 3
	StreamClosed    Code = 5
	FrameSize       Code = 6
	RefusedStream   Code = 7
	Cancel          Code = 8
	Compression     Code = 9
	EnhanceYourCalm Code = 11
)

const (
	frameHead = 9
	// largest is how large the payload of a frame may be, both ways: what RFC 9113 has both sides begin with.
	largest = 16 << 10
	// preface is what a client says before its first frame (RFC 9113, 3.4).
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frame is a frame that has come. Its payload stands in the buffer that was read into.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f *frame) has(flag byte) bool { return f.flags&flag != 0 }

// next cuts the first frame off what was read. size is how long it is, when it is not here as a whole.
func next(read []byte) (f frame, size int) {
	size = frameHead
	if len(read) < frameHead {
		return f, size
	}
	size += int(read[0])<<16 | int(read[1])<<8 | int(read[2])
	f = frame{kind: read[3], flags: read[4], stream: binary.BigEndian.Uint32(read[5:]) &^ (1 << 31)}
	if size <= len(read) {
		f.payload = read[frameHead:size]
	}
	return f, size
}

// unpad drops the padding of a frame's payload, and says whether it has the length that it should.
func (f *frame) unpad() bool {
	if !f.has(flagPadded) {
		return true
	}
	if len(f.payload) == 0 || int(f.payload[0]) >= len(f.payload) {
		return false
	}
	f.payload = f.payload[1 : len(f.payload)-int(f.payload[0])]
	return true
}

// appendHead appends the head of a frame.
func appendHead(dst []byte, size int, kind, flags byte, stream uint32) []byte {
	dst = append(dst, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendReset(dst []byte, stream uint32, code Code) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, 4, frameReset, 0, stream), uint32(code))
}

func appendWindow(dst []byte, stream uint32, more int) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, 4, frameWindow, 0, stream), uint32(more))
}

func appendGoAway(dst []byte, last uint32, code Code, why string) []byte {
	dst = appendHead(dst, 8+len(why), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	return append(binary.BigEndian.AppendUint32(dst, uint32(code)), why...)
}

// Settings (RFC 9113, 6.5.2).
const (
	settingTable   = 1
	settingPush    = 2
	settingStreams = 3
	settingWindow  = 4
	settingFrame   = 5
	settingList    = 6
)

type setting struct {
	id    uint16
	value uint32
}

func appendSettings(dst []byte, all ...setting) []byte {
	dst = appendHead(dst, 6*len(all), frameSettings, 0, 0)
	for _, s := range all {
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, s.id), s.value)
	}
	return dst
}
