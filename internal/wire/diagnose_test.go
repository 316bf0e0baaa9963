package wire

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDiagnose signs as senders do by mistake. The two signatures of the draft's
// common mistakes were computed elsewhere.
func TestDiagnose(t *testing.T) {
	const stamp = "1795168800"
	now := time.Unix(1795168800, 0)
	body := []byte(`{"eventId":"e-90","name":"ticket.moved","timestamp":"2026-11-20T10:00:00.120Z","data":{"board":"b3"},"cursor":"c41"}`)
	right, err := ParseSecret(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	text := NewKey([]byte(testSecret))
	sum := func(k *Key, id string) []byte {
		m := macStates.Get().(*macState)
		defer macStates.Put(m)
		k.mac(m, id, stamp, body)
		return append([]byte(nil), m.sum[:]...)
	}
	std, url := base64.StdEncoding.EncodeToString, base64.URLEncoding.EncodeToString
	for _, c := range []struct {
		name, sig, old, want string
	}{
		{"the text as key", "v1,95WF1Ycqm4mnMurLzbpP9PrjTAdXcqBBRkhI64snGaI=", "", "the key is the secret's text, whsec_ included"},
		{"the text as key, among others", "v1,AAAA v1,95WF1Ycqm4mnMurLzbpP9PrjTAdXcqBBRkhI64snGaI=", "",
			"the key is the secret's text, whsec_ included"},
		{"the text after whsec_", "v1," + std(sum(NewKey([]byte(testSecret[6:])), "e-90")), "", "the key is the secret's text after whsec_"},
		{"URL-safe", "v1," + url(sum(right, "e-90")), "", "the signature is in URL-safe base64"},
		{"URL-safe, without padding", "v1," + strings.TrimRight(url(sum(right, "e-90")), "="), "", "the signature is in "},
		{"without padding", "v1," + strings.TrimRight(std(sum(right, "e-90")), "="), "", "the signature is in base64 without padding"},
		{"hexadecimal", "v1," + hex.EncodeToString(sum(right, "e-90")), "", "the signature is hexadecimal"},
		{"no version", std(sum(right, "e-90")), "", "the signature does not begin with v1,"},
		{"another version", "v2," + std(sum(right, "e-90")), "", "the signature is marked v2 and not v1"},
		{"the older scheme by the text", "", "sha256=55eae7ab191f875df66cf0bfe18aa48995c9dcf5167a76bbebfbdb26cde8046d",
			"the older scheme, X-MCP-Signature over the timestamp and the body; the key is the secret's text, whsec_ included"},
		{"the older content in the new header", "v1," + std(sum(right, "")), "",
			"webhook-signature is over the timestamp and the body, as in the older scheme"},
		{"two mistakes at once", "v1," + url(sum(text, "e-90")), "", "whsec_ included, and not the bytes that it stands for"},
		{"the older scheme in base64", "", std(sum(right, "")),
			"the older scheme, X-MCP-Signature over the timestamp and the body; the signature is not hexadecimal"},
		{"another secret", "v1," + std(sum(NewKey([]byte("something else")), "e-90")), "", "-"},
		{"no signature", "", "", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{HeaderWebhookID: {"e-90"}, HeaderWebhookTimestamp: {stamp}}
			if c.sig != "" {
				h[HeaderWebhookSignature] = []string{c.sig}
			}
			if c.old != "" {
				h[HeaderOldTimestamp], h[HeaderOldSignature] = []string{stamp}, []string{c.old}
			}
			if err := Verify(h, body, now, right); err == nil {
				t.Error("it verifies")
			}
			got := NewSuspects(testSecret, right).Diagnose(h, body)
			if c.want == "-" && got != "" || c.want != "-" && !strings.Contains(got, c.want) {
				t.Errorf("diagnosed %q, want %q", got, c.want)
			}
		})
	}
}

// TestDiagnoseKeys tries keys that were made of the secret in another way.
func TestDiagnoseKeys(t *testing.T) {
	body := []byte("{}")
	at := time.Unix(1795168800, 0)
	for _, c := range []struct {
		name, secret string
		right, wrong *Key
		want         string
	}{
		{
			"a URL-safe decoder", "whsec_+/+/AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
			mustParse(t, "whsec_+/+/AAAAAAAAAAAAAAAAAAAAAAAAAAAA"), NewKey(make([]byte, 21)), "decoded as URL-safe base64",
		},
		{"a raw secret that was decoded", testSecret, NewKey([]byte(testSecret)), mustParse(t, testSecret), "the key is the secret decoded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := signed("e-90", "1795168800", c.wrong.Sign("e-90", at, body))
			if got := NewSuspects(c.secret, c.right).Diagnose(h, body); !strings.Contains(got, c.want) {
				t.Errorf("diagnosed %q, want %q", got, c.want)
			}
		})
	}
}

func mustParse(t *testing.T, secret string) *Key {
	k, err := ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
