package errtext

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"plain, with é and 漢":            "plain, with é and 漢",
		"a: b # c":                       "a: b # c",
		"two\nlines\ttab":                "two lines tab",
		"red \x1b[31malert\x1b[0m":       "red alert",
		"\x1b]0;title\a rest":            " rest",
		"\x1b]8;;http://x\x1b\\link":     "link",
		"\x1bPq#0\x1b\\sixel":            "sixel",
		"\u009b31mred\u009dt\u009cend":   "redend",
		"\x1bcreset":                     "reset",
		"cut \x1b[31":                    "cut ",
		"cut \x1b":                       "cut ",
		"\u202etxt.exe":                  " txt.exe",
		"bad \xff":                       "bad  ",
		"::error::x":                     ": :error::x",
		"  ::error::x":                   "  : :error::x",
		"\n::error::x":                   " : :error::x",
		"a::b ::1 :: x":                  "a::b ::1 :: x",
		"a ::error::x ::add-mask::b":     "a : :error::x : :add-mask::b",
		"a\u00a0::e::\u3000::d::":        "a\u00a0: :e::\u3000: :d::",
		"x ##[error]y ##vso[a]":          "x # #[error]y # #vso[a]",
		"##teamcity[a] section_start:1:": "# #teamcity[a] section_start :1:",
		"#\x1b[0m#[error]":               "# #[error]",
	} {
		if got := Plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		} else if again := Plain(got); again != got {
			t.Errorf("%q: a second time it is %q", got, again)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Plain("push") }); n != 0 {
		t.Errorf("a harmless text costs %v allocations", n)
	}
}

func TestSaid(t *testing.T) {
	var v struct{ Name Said }
	if err := json.Unmarshal([]byte(`{"name":"a\u001b[31m\nb"}`), &v); err != nil || v.Name != "a b" {
		t.Errorf("%q, %v", v.Name, err)
	}
	if err := json.Unmarshal([]byte(`{"name":5}`), &v); err == nil {
		t.Error("a number is no text")
	}
	if got := Of(strings.Repeat("é", 5000)); len(got) > maxSaid+len("…") || !strings.HasSuffix(string(got), "é…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestSecrets(t *testing.T) {
	s := NewSecrets("hunter22/x", "tok-123456", "tok-123456-more", "short", "")
	for in, want := range map[string]string{
		"Bearer tok-123456, tok-123456-more": "Bearer …, …",
		"hunter22/x hunter22%2Fx":            "… …",
		"short stays":                        "short stays",
		"tok-\x1b[0m123456":                  "…",
	} {
		if got := s.Scrub(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := NewSecrets("x").Scrub("a\nx"); got != "a x" {
		t.Errorf("%q", got)
	}
}
