package errtext

import (
	"net/url"
	"strings"
	"testing"
)

func TestFirstLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		" \r\n\t":                          "",
		"no such event\nsee the docs":      "no such event",
		"\n\n  spaced \t out \r\nmore":     "spaced out",
		"{\n  \"error\": \"no such\"\n}":   `{"error":"no such"}`,
		"[1,\n2]":                          "[1,2]",
		"{not json\nat all}":               "{not json",
		"bell\x07and\x1b[31mred":           "bell and [31mred",
		"bad \xff utf":                     "bad utf",
		"\x00\x01\nsecond":                 "second",
		strings.Repeat("é", MaxLine):       strings.Repeat("é", MaxLine/2) + "…",
		"x" + strings.Repeat("é", MaxLine): "x" + strings.Repeat("é", (MaxLine-1)/2) + "…",
	} {
		if got := FirstLine([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:9/hooks/1":                       "http://127.0.0.1:9/hooks/1",
		"https://me:hunter22@host/p?token=s3cr3t&a=b#frag": "https://host/p?a=…&token=…",
		"http://host/p?":                                   "http://host/p",
		"http://me:hunter22@host:bad port/p?token=s3cr3t":  "http://host:bad port/p",
		"http://ho st/p#x?token=s3cr3t":                    "http://ho st/p",
		"%zz://me:hunter22@host/p?t=s3cr3t":                "%zz://host/p",
	} {
		if got := Address(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestHide(t *testing.T) {
	u, err := url.Parse("https://me:hunter22@host/p?token=s3cr3t%2Fx&token=s3cr3t&n=1")
	if err != nil {
		t.Fatal(err)
	}
	const in = "1 of me: hunter22 and s3cr3t/x, s3cr3t%2Fx, s3cr3t"
	if got, want := Hide(in, u), "1 of me: … and …, …, …"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	u.User = url.User("api-key-9")
	if got := Hide("not api-key-9, nor hush", u, "hush", ""); got != "not …, nor …" {
		t.Errorf("%q", got)
	}
}
