package wire

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// Suspects are the keys that senders derive from a secret by mistake, and the
// correct key, for mistakes that are not in the key. They are safe for concurrent
// use.
type Suspects struct{ list []suspect }

type suspect struct {
	key *Key
	how string // empty for the correct key
}

// NewSuspects returns the suspects for a secret. text is the secret as the sender
// was given it, key the correct key.
func NewSuspects(text string, key *Key) *Suspects {
	s := &Suspects{list: []suspect{{key, ""}}}
	if plain, ok := strings.CutPrefix(text, SecretPrefix); ok {
		s.list = append(s.list,
			suspect{NewKey([]byte(text)), "the key is the secret's text, whsec_ included, and not the bytes that it stands for"},
			suspect{NewKey([]byte(plain)), "the key is the secret's text after whsec_, and not the bytes that it stands for"})
		// If the text has + or /, a decoder of URL-safe base64 that skips unknown
		// characters returns another key.
		known := strings.Map(func(r rune) rune {
			if r == '+' || r == '/' {
				return -1
			}
			return r
		}, strings.TrimRight(plain, "="))
		if raw, err := base64.RawURLEncoding.DecodeString(
			known[:len(known)-len(known)%4],
		); err == nil &&
			len(known) < len(strings.TrimRight(plain, "=")) {
			s.list = append(s.list, suspect{NewKey(raw), "the secret was decoded as URL-safe base64, which leaves out + and /"})
		}
	}
	if k, err := ParseSecret(text); err == nil && key != nil && *k != *key {
		s.list = append(s.list, suspect{k, "the key is the secret decoded, where its text was meant"})
	}
	return s
}

// spellings are the known ways to write a signature, the correct one first.
var spellings = []struct {
	how    string
	decode func(string) ([]byte, error)
}{
	{"", base64.StdEncoding.DecodeString},
	{"the signature is in base64 without padding", base64.RawStdEncoding.DecodeString},
	{"the signature is in URL-safe base64", base64.URLEncoding.DecodeString},
	{"the signature is in URL-safe base64", base64.RawURLEncoding.DecodeString},
	{"the signature is hexadecimal", hex.DecodeString},
}

// Diagnose returns the sender's mistake that explains why [Verify] refused the
// signature of a delivery, "" if no known mistake explains it. It allocates.
func (s *Suspects) Diagnose(h http.Header, body []byte) string {
	id, stamp := first(h, HeaderWebhookID), first(h, HeaderWebhookTimestamp)
	sigs, older := first(h, HeaderWebhookSignature), first(h, HeaderOldSignature)
	if stamp == "" {
		stamp = first(h, HeaderOldTimestamp)
	}
	m := macStates.Get().(*macState)
	defer macStates.Put(m)
	for _, k := range s.list {
		if k.key == nil {
			continue
		}
		for _, c := range []struct {
			sigs, id, how string
			older         bool
		}{
			{sigs, id, "", false},
			{older, "", "the older scheme, X-MCP-Signature over the timestamp and the body", true},
			{sigs, "", "webhook-signature is over the timestamp and the body, as in the older scheme: webhook-id is left out", false},
		} {
			if c.sigs == "" || stamp == "" || c.id == "" && c.how == "" {
				continue
			}
			k.key.mac(m, c.id, stamp, body)
			if spelled, ok := m.spelled(c.sigs, c.older); ok {
				return joined(c.how, k.how, spelled)
			}
		}
	}
	return ""
}

// spelled finds the MAC among signatures in any of the known spellings. Signatures
// of the older scheme are hexadecimal and have no version.
func (m *macState) spelled(sigs string, older bool) (how string, ok bool) {
	for one := range strings.FieldsSeq(sigs) {
		version, text, found := strings.Cut(one, ",")
		if !found {
			version, text = "", strings.TrimPrefix(one, "sha256=")
		}
		for i, s := range spellings {
			got, err := s.decode(text)
			switch {
			case err != nil || !hmac.Equal(m.sum[:], got):
			case older && i == len(spellings)-1:
				return "", true
			case older:
				return "the signature is not hexadecimal", true
			case version == "":
				return joined(s.how, "the signature does not begin with v1,"), true
			case version != "v1":
				return joined(s.how, "the signature is marked "+version+" and not v1"), true
			default:
				return s.how, true
			}
		}
	}
	return "", false
}

func joined(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "; ")
}
