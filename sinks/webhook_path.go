package sinks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// A path ends in a proof that it was issued: a nonce, which keeps paths apart,
// and a MAC of all that is before it, both in the URL-safe Base64 alphabet. A path
// that is no longer in use is so told from one that never was without a memory
// of it.
const (
	nonceSize = 8
	macSize   = 10 // 80 bits, which cannot be guessed at the rate of a listener
)

var (
	nonceLen = base64.RawURLEncoding.EncodedLen(nonceSize + macSize)
	pathText = base64.RawURLEncoding.Strict()
)

// pathKey signs the paths of one Receiver.
type pathKey [sha256.Size]byte

func newPathKey() (k pathKey) {
	rand.Read(k[:])
	return k
}

// mac signs a prefix and the nonce that follows it.
func (k *pathKey) mac(prefix string, nonce []byte) []byte {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(prefix))
	m.Write(nonce)
	return m.Sum(nil)[:macSize]
}

// Issue makes a path that begins with prefix and that nobody can guess. Requests
// for it are answered 503 while no hook is there.
func (r *Receiver) Issue(prefix string) string {
	var end [nonceSize + macSize]byte
	rand.Read(end[:nonceSize])
	copy(end[nonceSize:], r.key.mac(prefix, end[:nonceSize]))
	return prefix + pathText.EncodeToString(end[:])
}

// issued tells whether path came from Issue.
func (r *Receiver) issued(path string) bool {
	cut := len(path) - nonceLen
	if cut < 0 {
		return false
	}
	end, err := pathText.DecodeString(path[cut:])
	return err == nil && len(end) == nonceSize+macSize && hmac.Equal(end[nonceSize:], r.key.mac(path[:cut], end[:nonceSize]))
}
