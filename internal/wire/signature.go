package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of Standard Webhooks and of the older revision of the MCP Events
// draft, in the canonical form of net/http.
const (
	HeaderWebhookID        = "Webhook-Id"
	HeaderWebhookTimestamp = "Webhook-Timestamp"
	HeaderWebhookSignature = "Webhook-Signature"
	HeaderOldSignature     = "X-Mcp-Signature"
	HeaderOldTimestamp     = "X-Mcp-Timestamp"
	HeaderSubscriptionID   = "X-Mcp-Subscription-Id"
)

// Tolerance is the largest difference between a delivery's timestamp and the clock
// (Standard Webhooks and the MCP Events draft).
const Tolerance = 5 * time.Minute

// The errors of [Verify].
var (
	ErrUnsigned  = errors.New("delivery is not signed")
	ErrStale     = errors.New("delivery's timestamp is more than 5 minutes off")
	ErrSignature = errors.New("delivery's signature does not match")
)

// SecretPrefix begins every Standard Webhooks secret.
const SecretPrefix = "whsec_"

// Key is a webhook secret, ready for use. It is safe for concurrent use.
type Key struct {
	inner, outer [sha256.BlockSize]byte // the secret, padded and xored (RFC 2104)
}

// FormatSecret formats a secret as the draft requires.
func FormatSecret(secret []byte) string {
	return SecretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// ParseSecret parses a secret of the form whsec_<base64>. The caller checks its
// length: the draft allows 24 to 64 bytes.
func ParseSecret(secret string) (*Key, error) {
	text, ok := strings.CutPrefix(secret, SecretPrefix)
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("webhook secret does not have the form whsec_<base64>")
	}
	return NewKey(raw), nil
}

// NewKey returns a key for the secret's bytes, which it does not retain.
func NewKey(secret []byte) *Key {
	k := new(Key)
	if len(secret) > sha256.BlockSize {
		sum := sha256.Sum256(secret)
		secret = sum[:]
	}
	copy(k.inner[:], secret)
	k.outer = k.inner
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return k
}

// macState is the scratch space of one signature. crypto/hmac would allocate
// two hashes for every message; here one hash serves both rounds.
type macState struct {
	hash hash.Hash
	sum  [sha256.Size]byte
	text [88]byte
}

var macStates = sync.Pool{New: func() any { return &macState{hash: sha256.New()} }}

var dot = []byte(".")

// mac computes HMAC-SHA256 over id "." stamp "." body, or, with an empty id,
// over stamp "." body.
func (k *Key) mac(m *macState, id, stamp string, body []byte) {
	h := m.hash
	h.Reset()
	h.Write(k.inner[:])
	if id != "" {
		m.write(id)
		h.Write(dot)
	}
	m.write(stamp)
	h.Write(dot)
	h.Write(body)
	inner := h.Sum(m.sum[:0])
	h.Reset()
	h.Write(k.outer[:])
	h.Write(inner)
	h.Sum(m.sum[:0])
}

// write hashes a string without turning it into a slice on the heap.
func (m *macState) write(s string) {
	for len(s) > 0 {
		n := copy(m.text[:], s)
		m.hash.Write(m.text[:n])
		s = s[n:]
	}
}

// Sign returns the value of the signature header: v1, a comma and the MAC in base64.
func (k *Key) Sign(id string, at time.Time, body []byte) string {
	m := macStates.Get().(*macState)
	defer macStates.Put(m)
	k.mac(m, id, strconv.FormatInt(at.Unix(), 10), body)
	return "v1," + base64.StdEncoding.EncodeToString(m.sum[:])
}

// Stamped returns the timestamp of header fields, that of the older revision included, in Unix
// seconds; 0 if there is none.
func Stamped(h http.Header) int64 {
	text := first(h, HeaderWebhookTimestamp)
	if text == "" {
		text = first(h, HeaderOldTimestamp)
	}
	seconds, _ := digitsOf(text)
	return seconds
}

// Verify checks a delivery's headers against the raw body and any one of keys:
// several are valid while a secret rotates. It accepts Standard Webhooks, where any
// v1 signature may match, and the scheme of the older revision. The error is nil,
// ErrUnsigned, ErrStale or ErrSignature. Verify does not allocate.
func Verify(h http.Header, body []byte, now time.Time, keys ...*Key) error {
	id, stamp, sigs := first(h, HeaderWebhookID), first(h, HeaderWebhookTimestamp), first(h, HeaderWebhookSignature)
	old := sigs == ""
	if old {
		id, stamp, sigs = "", first(h, HeaderOldTimestamp), first(h, HeaderOldSignature)
	}
	if stamp == "" || sigs == "" || !old && id == "" {
		return ErrUnsigned
	}
	seconds, ok := digitsOf(stamp)
	if !ok {
		return ErrUnsigned
	}
	if off := now.Unix() - seconds; off > int64(Tolerance/time.Second) || off < -int64(Tolerance/time.Second) {
		return ErrStale
	}
	m := macStates.Get().(*macState)
	defer macStates.Put(m)
	for _, k := range keys {
		if k == nil {
			continue
		}
		k.mac(m, id, stamp, body)
		if old && m.matchOld(sigs) || !old && m.match(sigs) {
			return nil
		}
	}
	return ErrSignature
}

func (m *macState) match(sigs string) bool {
	want := m.text[:base64.StdEncoding.EncodedLen(len(m.sum))]
	base64.StdEncoding.Encode(want, m.sum[:])
	for len(sigs) > 0 {
		var one string
		one, sigs, _ = strings.Cut(sigs, " ")
		if got, ok := strings.CutPrefix(one, "v1,"); ok && equal(want, got) {
			return true
		}
	}
	return false
}

func (m *macState) matchOld(sig string) bool {
	want := m.text[:hex.EncodedLen(len(m.sum))]
	hex.Encode(want, m.sum[:])
	return equal(want, strings.TrimPrefix(sig, "sha256="))
}

// equal reports whether want and got are equal. For the same length its time does
// not depend on the content.
func equal(want []byte, got string) bool {
	if len(want) != len(got) {
		return false
	}
	var buf [88]byte
	n := copy(buf[:], got)
	return subtle.ConstantTimeCompare(want, buf[:n]) == 1
}

func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func digitsOf(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 15 {
		return 0, false
	}
	var v int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		v = v*10 + int64(s[i]-'0')
	}
	return v, true
}
