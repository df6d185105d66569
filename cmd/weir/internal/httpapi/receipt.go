package httpapi

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/packing"
	"github.com/weir-limit/weir/rules"
)

// A receipt on the wire is base64url of a version byte, the salt of the process that
// gave it, the number of the nonce, and what AES-256-GCM makes of the charges. A caller that has
// one can neither read nor change it.
//
// Each process has a key of its own, made of its salt and a secret, so that none uses a
// nonce twice. Where daemons share a secret, each opens what the others gave. Else it is
// drawn at the start: what a process gave is worth nothing to another, whose counts it does
// not speak of.
const (
	receiptVersion = 1
	saltSize       = 16
	receiptHeader  = 1 + saltSize + 8
	// maxReceipt is how long the bytes of a receipt may be, so that one always
	// fits into the body of /v1/settle.
	maxReceipt = 512 << 10
)

var (
	errNotOurs     = errors.New("the receipt is not one of this daemon since it started, nor of its cluster; send it back as it was given")
	errElsewhere   = errors.New("the receipt was given by another node, which counts this by itself; settle it there")
	errReceiptSize = errors.New("a receipt for so many charges is too long; send fewer descriptors, or ask for no receipt")
)

// charge is one receipt of the store, and which descriptors of the request it
// is of: those whose count is the same have one charge together.
type charge struct {
	descriptors []int
	receipt     *weir.Receipt
}

// used is what all descriptors of the charge really cost, given what each did.
func (c *charge) used(by func(descriptor int) int64) int64 {
	var sum int64
	for _, i := range c.descriptors {
		sum += by(i)
	}
	return sum
}

// share tells what of the charge's events stay charged for each descriptor: what it
// used, as far as they go, and the last has what is left.
func (c *charge) share(charged int64, by func(descriptor int) int64, tell func(descriptor int, charged int64)) {
	last := len(c.descriptors) - 1
	for _, i := range c.descriptors[:last] {
		part := min(by(i), charged)
		tell(i, part)
		charged -= part
	}
	tell(c.descriptors[last], charged)
}

// receipts makes receipts for the wire, and takes them back.
type receipts struct {
	salt  [saltSize]byte
	nonce atomic.Uint64
	keys  atomic.Pointer[[]receiptKey] // the first seals, each opens
	bound func(*weir.Receipt) bool     // it can be settled by the process that gave it only
}

// receiptKey is a secret, and the key of this process by it.
type receiptKey struct {
	secret []byte
	own    cipher.AEAD
}

// newReceipts begins with a secret of its own.
func newReceipts(bound func(*weir.Receipt) bool) (*receipts, error) {
	r, secret := &receipts{bound: bound}, make([]byte, 32)
	rand.Read(r.salt[:]) // never fails
	rand.Read(secret)
	return r, r.rekey([][]byte{secret})
}

// rekey goes on with other secrets.
func (r *receipts) rekey(secrets [][]byte) error {
	var keys []receiptKey
	for _, secret := range secrets {
		own, err := sealOf(secret, r.salt[:])
		if err != nil {
			return err
		}
		keys = append(keys, receiptKey{secret, own})
	}
	r.keys.Store(&keys)
	return nil
}

// sealOf is the key of the process with a salt.
func sealOf(secret, salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, salt, "weir receipts", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of receipts: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("derive the key of receipts: %w", err)
	}
	return cipher.NewGCM(block)
}

// seal makes the receipt of an answer to a request of so many descriptors. It
// is empty when nothing was charged, and fails with errReceiptSize.
func (r *receipts) seal(a *rules.Answer, descriptors int) (string, error) {
	charges := chargesOf(a)
	if len(charges) == 0 {
		return "", nil
	}
	b := make([]byte, 0, 256)
	b = append(append(b, receiptVersion), r.salt[:]...)
	b = binary.BigEndian.AppendUint64(b, r.nonce.Add(1))
	plain := appendCharges(make([]byte, 0, 256), charges, descriptors)
	if len(plain) > maxReceipt {
		return "", errReceiptSize
	}
	b = (*r.keys.Load())[0].own.Seal(b, nonceOf(b), plain, b[:receiptHeader])
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// nonceOf is the nonce of a receipt, which its process uses once.
func nonceOf(b []byte) []byte { return append(make([]byte, 4, 12), b[1+saltSize:receiptHeader]...) }

// open is what seal made a receipt of. It fails with errNotOurs and errElsewhere.
func (r *receipts) open(text string) (charges []charge, descriptors int, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") || // which the decoder passes over
		len(b) < receiptHeader || b[0] != receiptVersion {
		return nil, 0, errNotOurs
	}
	salt := b[1 : 1+saltSize]
	ours := bytes.Equal(salt, r.salt[:])
	plain, err := r.unseal(b, salt, ours)
	if err != nil {
		return nil, 0, errNotOurs
	}
	charges, descriptors, err = readCharges(plain)
	if err != nil {
		return nil, 0, fmt.Errorf("%w (%w)", errNotOurs, err) // a bug: who else has the key?
	}
	if !ours && slices.ContainsFunc(charges, func(c charge) bool { return r.bound(c.receipt) }) {
		return nil, 0, errElsewhere
	}
	return charges, descriptors, nil
}

// unseal opens a receipt by whichever secret it was sealed with.
func (r *receipts) unseal(b, salt []byte, ours bool) (plain []byte, err error) {
	for _, k := range *r.keys.Load() {
		aead := k.own
		if !ours {
			if aead, err = sealOf(k.secret, salt); err != nil {
				return nil, err
			}
		}
		if plain, err = aead.Open(nil, nonceOf(b), b[receiptHeader:], b[:receiptHeader]); err == nil {
			return plain, nil
		}
	}
	return nil, err
}

// chargesOf is the charges of an answer, each once, in its order.
func chargesOf(a *rules.Answer) []charge {
	var charges []charge
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if d.Receipt == nil || !d.Charged {
			continue
		}
		j := slices.IndexFunc(charges, func(c charge) bool { return c.receipt == d.Receipt })
		if j < 0 {
			j = len(charges)
			charges = append(charges, charge{receipt: d.Receipt})
		}
		charges[j].descriptors = append(charges[j].descriptors, d.Descriptor)
	}
	return charges
}

func appendCharges(b []byte, charges []charge, descriptors int) []byte {
	b = binary.BigEndian.AppendUint64(b, charges[0].receipt.ID)
	b = binary.AppendUvarint(b, uint64(descriptors))
	b = binary.AppendUvarint(b, uint64(len(charges)))
	for _, c := range charges {
		b = binary.AppendUvarint(b, uint64(len(c.descriptors)))
		for _, i := range c.descriptors {
			b = binary.AppendUvarint(b, uint64(i))
		}
		r := c.receipt
		b = packing.AppendText(b, r.State.Rule)
		b = packing.AppendText(b, r.State.Key)
		b = packing.AppendText(b, r.Limit.String())
		for _, n := range [...]uint64{uint64(r.Cost), uint64(r.Taken), uint64(r.Expires), r.Mark[0], r.Mark[1]} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// readCharges is what appendCharges wrote.
func readCharges(b []byte) (charges []charge, descriptors int, err error) {
	if len(b) < 8 {
		return nil, 0, errCharges
	}
	id := binary.BigEndian.Uint64(b)
	r := packing.Reader{Rest: b[8:]}
	descriptors = int(r.Below(rules.MaxDescriptors + 1))
	for n := r.Length(); n > 0 && !r.Bad; n-- {
		charges = append(charges, readCharge(&r, id, descriptors))
	}
	if r.Bad || len(r.Rest) > 0 || len(charges) == 0 {
		return nil, 0, errCharges
	}
	return charges, descriptors, nil
}

var errCharges = errors.New("it does not hold charges")

func readCharge(r *packing.Reader, id uint64, descriptors int) charge {
	var c charge
	for n := r.Below(uint64(descriptors) + 1); n > 0; n-- {
		c.descriptors = append(c.descriptors, int(r.Below(uint64(descriptors))))
	}
	of := &weir.Receipt{ID: id, State: weir.StateKey{Rule: r.Text(maxReceipt), Key: r.Text(maxReceipt)}}
	limit, err := weir.ParseLimit(r.Text(maxReceipt))
	if err != nil {
		r.Bad = true
	}
	of.Limit = limit
	of.Cost = int64(r.Below(weir.MaxWindowCount + 1))
	of.Taken, of.Expires = weir.Instant(r.Number()), weir.Instant(r.Number())
	of.Mark = [2]uint64{r.Number(), r.Number()}
	c.receipt = of
	return c
}
