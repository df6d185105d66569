package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// A receipt on the wire is base64url of a version byte, the number of the
// nonce, and what AES-256-GCM makes of the charges. Who holds one can neither
// read nor change it. The key lives as long as the process: its receipts are
// worth nothing to another, whose counts they do not speak of.
const (
	receiptVersion = 1
	receiptHeader  = 1 + 8
	// maxReceipt is how long the bytes of a receipt may be, so that one always
	// fits into the body of /v1/settle.
	maxReceipt = 512 << 10
)

var (
	errNotOurs     = errors.New("the receipt is not one of this daemon since it started; send it back as it was given")
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
	return min(sum, weir.MaxCount)
}

// receipts makes receipts for the wire, and takes them back. Each process has
// its own key and a nonce that counts, so that no nonce is used twice.
type receipts struct {
	aead  cipher.AEAD
	nonce atomic.Uint64
}

func newReceipts() (*receipts, error) {
	var key [32]byte
	rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &receipts{aead: aead}, err
}

// seal makes the receipt of an answer to a request of so many descriptors. It
// is empty when nothing was charged, and fails with errReceiptSize.
func (r *receipts) seal(a *rules.Answer, descriptors int) (string, error) {
	charges := chargesOf(a)
	if len(charges) == 0 {
		return "", nil
	}
	b := make([]byte, receiptHeader, 256)
	b[0] = receiptVersion
	binary.BigEndian.PutUint64(b[1:], r.nonce.Add(1))
	plain := appendCharges(make([]byte, 0, 256), charges, descriptors)
	if len(plain) > maxReceipt {
		return "", errReceiptSize
	}
	b = r.aead.Seal(b, r.nonceOf(b), plain, b[:receiptHeader])
	return base64.RawURLEncoding.EncodeToString(b), nil
}

func (r *receipts) nonceOf(b []byte) []byte {
	nonce := make([]byte, r.aead.NonceSize())
	copy(nonce, b[:receiptHeader])
	return nonce
}

// open is what seal made a receipt of. It fails with errNotOurs.
func (r *receipts) open(text string) (charges []charge, descriptors int, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") || // which the decoder passes over
		len(b) < receiptHeader || b[0] != receiptVersion {
		return nil, 0, errNotOurs
	}
	plain, err := r.aead.Open(nil, r.nonceOf(b), b[receiptHeader:], b[:receiptHeader])
	if err != nil {
		return nil, 0, errNotOurs
	}
	charges, descriptors, err = readCharges(plain)
	if err != nil {
		return nil, 0, fmt.Errorf("%w (%w)", errNotOurs, err) // a bug: who else has the key?
	}
	return charges, descriptors, nil
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
		b = appendBytes(b, r.State.Rule)
		b = appendBytes(b, r.State.Key)
		b = appendBytes(b, r.Limit.String())
		for _, n := range [...]uint64{uint64(r.Cost), uint64(r.Taken), uint64(r.Expires), r.Mark[0], r.Mark[1]} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

func appendBytes(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readCharges is what appendCharges wrote.
func readCharges(b []byte) (charges []charge, descriptors int, err error) {
	if len(b) < 8 {
		return nil, 0, errCharges
	}
	id := binary.BigEndian.Uint64(b)
	w := wire{b: b[8:]}
	descriptors = int(w.upTo(rules.MaxDescriptors))
	for n := w.upTo(int64(len(b))); n > 0 && w.err == nil; n-- {
		charges = append(charges, w.charge(id, descriptors))
	}
	if w.err == nil && (len(w.b) > 0 || len(charges) == 0) {
		w.err = errCharges
	}
	return charges, descriptors, w.err
}

var errCharges = errors.New("it does not hold charges")

// wire takes bytes apart. Once it failed, it fails for ever.
type wire struct {
	b   []byte
	err error
}

func (w *wire) fail() { w.b, w.err = nil, errCharges }

func (w *wire) uint() uint64 {
	n, size := binary.Uvarint(w.b)
	if size <= 0 {
		w.fail()
		return 0
	}
	w.b = w.b[size:]
	return n
}

// upTo is a number from 0 to most.
func (w *wire) upTo(most int64) int64 {
	n := w.uint()
	if n > uint64(most) {
		w.fail()
		return 0
	}
	return int64(n)
}

func (w *wire) string() string {
	n := w.uint()
	if n > uint64(len(w.b)) {
		w.fail()
		return ""
	}
	s := string(w.b[:n])
	w.b = w.b[n:]
	return s
}

func (w *wire) charge(id uint64, descriptors int) charge {
	var c charge
	for n := w.upTo(int64(descriptors)); n > 0; n-- {
		c.descriptors = append(c.descriptors, int(w.upTo(int64(descriptors)-1)))
	}
	r := &weir.Receipt{ID: id, State: weir.StateKey{Rule: w.string(), Key: w.string()}}
	limit, err := weir.ParseLimit(w.string())
	if err != nil {
		w.fail()
	}
	r.Limit = limit
	r.Cost = w.upTo(weir.MaxWindowCount)
	r.Taken = weir.Instant(w.uint())
	r.Expires = weir.Instant(w.uint())
	r.Mark = [2]uint64{w.uint(), w.uint()}
	c.receipt = r
	return c
}
