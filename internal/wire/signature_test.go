package wire

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func signed(id, stamp, sig string) http.Header {
	return http.Header{HeaderWebhookID: {id}, HeaderWebhookTimestamp: {stamp}, HeaderWebhookSignature: {sig}}
}

func TestSignatureVectors(t *testing.T) {
	k, err := ParseSecret(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	// The vector that the Standard Webhooks libraries are tested with.
	at := time.Unix(1614265330, 0)
	if got := k.Sign(
		"msg_p5jXN8AQM9LWM0D4loKWxJek",
		at,
		[]byte(`{"test": 2432232314}`),
	); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signed %s", got)
	}
	// A key longer than a block is hashed first.
	long := NewKey([]byte(strings.Repeat("\xaa", 131)))
	wh, _ := standardwebhooks.NewWebhookRaw([]byte(strings.Repeat("\xaa", 131)))
	want, _ := wh.Sign("m", at, []byte("x"))
	if got := long.Sign("m", at, []byte("x")); got != want {
		t.Errorf("long key: %s, want %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	k, _ := ParseSecret(testSecret)
	other := NewKey([]byte("another secret of some length..."))
	now := time.Unix(1795168800, 0)
	body := []byte(`{"eventId":"e-90"}`)
	sign := func(k *Key, off time.Duration) http.Header {
		at := now.Add(off)
		return signed("e-90", strconv.FormatInt(at.Unix(), 10), k.Sign("e-90", at, body))
	}
	with := func(h http.Header, name, value string) http.Header {
		h[name] = []string{value}
		return h
	}
	good := sign(k, 0)[HeaderWebhookSignature][0]
	old := func(off time.Duration, prefix string) http.Header {
		at := now.Add(off)
		return http.Header{HeaderOldTimestamp: {strconv.FormatInt(at.Unix(), 10)}, HeaderOldSignature: {prefix + k.signOld(at, body)}}
	}
	for _, c := range []struct {
		name string
		h    http.Header
		keys []*Key
		want error
	}{
		{"good", sign(k, 0), []*Key{k}, nil},
		{"second key", sign(k, 0), []*Key{other, nil, k}, nil},
		{"no keys", sign(k, 0), []*Key{nil}, ErrSignature},
		{"other key", sign(other, 0), []*Key{k}, ErrSignature},
		{"several", with(sign(k, 0), HeaderWebhookSignature, "v1a,zzz v1,AAAA "+good), []*Key{k}, nil},
		{"only v1a", with(sign(k, 0), HeaderWebhookSignature, "v1a"+good[2:]), []*Key{k}, ErrSignature},
		{"other id", with(sign(k, 0), HeaderWebhookID, "e-91"), []*Key{k}, ErrSignature},
		{"just old enough", sign(k, -5*time.Minute), []*Key{k}, nil},
		{"too old", sign(k, -5*time.Minute-time.Second), []*Key{k}, ErrStale},
		{"too new", sign(k, 5*time.Minute+time.Second), []*Key{k}, ErrStale},
		{"no number", with(sign(k, 0), HeaderWebhookTimestamp, "soon"), []*Key{k}, ErrUnsigned},
		{"no id", with(sign(k, 0), HeaderWebhookID, ""), []*Key{k}, ErrUnsigned},
		{"nothing", http.Header{}, []*Key{k}, ErrUnsigned},
		{"older", old(0, ""), []*Key{k}, nil},
		{"older with a prefix", old(0, "sha256="), []*Key{k}, nil},
		{"older, stale", old(-time.Hour, ""), []*Key{k}, ErrStale},
		{"older, wrong", old(0, "00"), []*Key{k}, ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Verify(c.h, body, now, c.keys...); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestParseSecret(t *testing.T) {
	for _, s := range []string{"", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!!"} {
		if _, err := ParseSecret(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
	raw := []byte("0123456789abcdef01234567")
	k, err := ParseSecret(FormatSecret(raw))
	if err != nil || *k != *NewKey(raw) {
		t.Errorf("round trip: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("msg_1", []byte(`{"a":1}`), "v1,x y", []byte("key"), true)
	f.Add("e.9", []byte(""), "", []byte{}, false)
	f.Fuzz(func(t *testing.T, id string, body []byte, extra string, secret []byte, right bool) {
		lib, err := standardwebhooks.NewWebhookRaw(secret)
		if err != nil {
			t.Skip()
		}
		now := time.Now()
		sig := extra
		if right {
			good, _ := lib.Sign(id, now, body)
			sig = extra + " " + good
		}
		h := signed(id, strconv.FormatInt(now.Unix(), 10), sig)
		mine := Verify(h, body, now, NewKey(secret)) == nil
		theirs := lib.Verify(body, h) == nil
		if mine != theirs && strings.Count(sig, ",") <= strings.Count(sig, " ")+1 {
			t.Errorf("mine %t, the library's %t", mine, theirs)
		}
		if id != "" && NewKey(secret).Sign(id, now, body) != sig[max(0, len(sig)-47):] && right {
			t.Error("signed differently")
		}
	})
}

func TestVerifyAllocatesNothing(t *testing.T) {
	k, _ := ParseSecret(testSecret)
	now := time.Now()
	body := []byte(sampleFrame)
	h := signed("e-90", strconv.FormatInt(now.Unix(), 10), k.Sign("e-90", now, body))
	if n := testing.AllocsPerRun(100, func() { _ = Verify(h, body, now, k, nil) }); n > 0.5 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkVerify(b *testing.B) {
	k, _ := ParseSecret(testSecret)
	now := time.Now()
	body := []byte(sampleFrame)
	h := signed("e-90", strconv.FormatInt(now.Unix(), 10), k.Sign("e-90", now, body))
	b.ReportAllocs()
	for b.Loop() {
		if err := Verify(h, body, now, k, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// signOld returns the older revision's signature, hexadecimal, over the
// timestamp, a dot and the body.
func (k *Key) signOld(at time.Time, body []byte) string {
	m := macStates.Get().(*macState)
	defer macStates.Put(m)
	k.mac(m, "", strconv.FormatInt(at.Unix(), 10), body)
	return hex.EncodeToString(m.sum[:])
}
