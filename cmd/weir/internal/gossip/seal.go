package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// identity is a process: the name of its node, and a number drawn when it began,
// which no two processes share.
type identity struct {
	id   uint64
	name string
}

// seals are the keys between this process and another. One seals what goes there,
// each opens what comes from there. They are made from the cluster keys, for one
// direction between two processes: a packet opens at nobody else, nor after a
// restart, and each direction has nonces of its own.
type seals struct {
	id   uint32
	seal cipher.AEAD // nil: nothing is sealed
	open map[uint32]cipher.AEAD
}

// newSeals makes the keys between two processes. The first cluster key seals;
// without any nothing is sealed.
func newSeals(keys [][]byte, me, peer identity) (*seals, error) {
	s := &seals{open: map[uint32]cipher.AEAD{}}
	for i, key := range keys {
		id, err := keyID(key)
		if err != nil {
			return nil, err
		}
		if s.open[id], err = pairKey(key, peer, me); err != nil {
			return nil, err
		}
		if i == 0 {
			s.id = id
			if s.seal, err = pairKey(key, me, peer); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// keyID is what packets call a cluster key by: never 0.
func keyID(key []byte) (uint32, error) {
	b, err := hkdf.Key(sha256.New, key, nil, "weir data plane: key id", 4)
	if err != nil {
		return 0, fmt.Errorf("derive the id of a cluster key: %w", err)
	}
	return binary.BigEndian.Uint32(b) | 1, nil
}

func pairKey(key []byte, from, to identity) (cipher.AEAD, error) {
	info := []byte("weir data plane: from, to\x00")
	info = binary.BigEndian.AppendUint64(info, from.id)
	info = binary.BigEndian.AppendUint64(info, to.id)
	info = append(append(append(info, from.name...), 0), to.name...)
	b, err := hkdf.Key(sha256.New, key, nil, string(info), 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(b)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return cipher.NewGCM(block)
}

// append adds a packet of h and payload to b. payload lies elsewhere.
func (s *seals) append(b []byte, h *header, payload []byte) []byte {
	h.key = s.id
	start := len(b)
	b = h.append(b)
	if s.seal == nil {
		return append(b, payload...)
	}
	return s.seal.Seal(b, b[start+nonceAt:], payload, b[start:])
}

// unseal is the payload of a packet with header h, which it decrypts in place.
func (s *seals) unseal(packet []byte, h *header) ([]byte, Reason) {
	payload := packet[headerSize:]
	if s.seal == nil && h.key == 0 {
		return payload, None
	}
	key, ok := s.open[h.key]
	switch {
	case !ok:
		return nil, UnknownKey
	case len(payload) < sealSize:
		return nil, Truncated
	}
	plain, err := key.Open(payload[:0], packet[nonceAt:headerSize], payload, packet[:headerSize])
	if err != nil {
		return nil, Forged
	}
	return plain, None
}

// ErrKeys is wrapped by what is wrong with cluster keys.
var ErrKeys = errors.New("cluster keys")

func checkKeys(keys [][]byte) error {
	for i, key := range keys {
		if n := len(key); n != 16 && n != 24 && n != 32 {
			return fmt.Errorf("%w: number %d has %d bytes; take 32 random ones (16 and 24 will do, too)", ErrKeys, i+1, n)
		}
		for _, other := range keys[:i] {
			if bytes.Equal(key, other) {
				return fmt.Errorf("%w: number %d is there twice; leave one out", ErrKeys, i+1)
			}
		}
	}
	if len(keys) > MaxKeys {
		return fmt.Errorf("%w: there are %d; keep the %d that are in use at most", ErrKeys, len(keys), MaxKeys)
	}
	return nil
}
