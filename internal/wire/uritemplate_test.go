package wire

import (
	"slices"
	"strings"
	"testing"
)

// The values and expansions of RFC 6570, section 3.2. Its association "keys" is
// written there in an order of its own; here keys rise.
var templateValues = map[string]any{
	"count": []string{"one", "two", "three"}, "dom": []string{"example", "com"}, "dub": "me/too", "hello": "Hello World!", "half": "50%",
	"var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar", "list": []string{"red", "green", "blue"},
	"keys": map[string]string{"semi": ";", "dot": ".", "comma": ","}, "v": "6", "x": "1024", "y": "768", "empty": "",
	"empty_keys": map[string]string{}, "undef": nil,
}

func TestURITemplate(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a b/ü": "a%20b/%C3%BC", "%41": "%41",
		"{count}": "one,two,three", "{count*}": "one,two,three", "{/count}": "/one,two,three", "{/count*}": "/one/two/three",
		"{;count}": ";count=one,two,three", "{;count*}": ";count=one;count=two;count=three",
		"{?count}": "?count=one,two,three", "{?count*}": "?count=one&count=two&count=three", "{&count*}": "&count=one&count=two&count=three",
		"{var}": "value", "{hello}": "Hello%20World%21", "{half}": "50%25", "O{empty}X": "OX", "O{undef}X": "OX",
		"{x,y}": "1024,768", "{x,hello,y}": "1024,Hello%20World%21,768", "?{x,empty}": "?1024,", "?{x,undef}": "?1024", "?{undef,y}": "?768",
		"{var:3}": "val", "{var:30}": "value", "{list}": "red,green,blue", "{list*}": "red,green,blue",
		"{keys}": "comma,%2C,dot,.,semi,%3B", "{keys*}": "comma=%2C,dot=.,semi=%3B",
		"{+var}": "value", "{+hello}": "Hello%20World!", "{+half}": "50%25", "{base}index": "http%3A%2F%2Fexample.com%2Fhome%2Findex",
		"{+base}index": "http://example.com/home/index", "{+path}/here": "/foo/bar/here", "{+path:6}/here": "/foo/b/here",
		"{+keys*}": "comma=,,dot=.,semi=;", "{#x,hello,y}": "#1024,Hello%20World!,768", "{#path,x}/here": "#/foo/bar,1024/here",
		"{#path:6}here": "#/foo/bhere", "foo{#empty}": "foo#", "foo{#undef}": "foo", "{#keys}": "#comma,,,dot,.,semi,;",
		"{.who,who}": ".fred.fred", "{.half,who}": ".50%25.fred", "www{.dom*}": "www.example.com", "X{.empty}": "X.", "X{.undef}": "X",
		"X{.list}": "X.red,green,blue", "X{.list*}": "X.red.green.blue", "X{.keys*}": "X.comma=%2C.dot=..semi=%3B", "X{.empty_keys}": "X",
		"{/who,dub}": "/fred/me%2Ftoo", "{/var,empty}": "/value/", "{/var:1,var}": "/v/value", "{/list*,path:4}": "/red/green/blue/%2Ffoo",
		"{;v,empty,who}": ";v=6;empty;who=fred", "{;v,bar,who}": ";v=6;who=fred", "{;hello:5}": ";hello=Hello", "{;keys}": ";keys=comma,%2C,dot,.,semi,%3B",
		"{;keys*}": ";comma=%2C;dot=.;semi=%3B", "{?x,y,empty}": "?x=1024&y=768&empty=", "{?x,y,undef}": "?x=1024&y=768", "{?var:3}": "?var=val",
		"{?keys}": "?keys=comma,%2C,dot,.,semi,%3B", "{?keys*}": "?comma=%2C&dot=.&semi=%3B", "?fixed=yes{&x}": "?fixed=yes&x=1024", "{&var:3}": "&var=val",
	} {
		u, err := ParseURITemplate(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := u.Expand(templateValues); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	u, err := ParseURITemplate("event://{a}/{b,a*}{?c:3}")
	if err != nil || !slices.Equal(u.Names(), []string{"a", "b", "c"}) {
		t.Errorf("%v %v", u.Names(), err)
	}
	if got := u.Expand(map[string]any{"c": "äöüß"}); got != "event:///?c=%C3%A4%C3%B6%C3%BC" {
		t.Error(got)
	}
	for _, bad := range []string{"{", "}", "a{b", "a}b", "{}", "{=a}", "{a b}", "{a:0}", "{a:x}", "{a:10000}", "{a,}", "{a{b}}", "{ü}"} {
		if _, err := ParseURITemplate(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// FuzzURITemplate: whatever is taken expands to a URI's characters.
func FuzzURITemplate(f *testing.F) {
	f.Add("event://chat.message/{channel}{?from,to*}")
	f.Add("{+a:3}%zz{#b}{&c*}")
	f.Fuzz(func(t *testing.T, in string) {
		u, err := ParseURITemplate(in)
		if err != nil {
			return
		}
		values := map[string]any{}
		for i, n := range u.Names() {
			values[n] = []any{"x/ ü%", []string{"", "a,b", in}, map[string]string{"k": "", in: "v"}, nil}[i%4]
		}
		if got := u.Expand(values); strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("{}\"<>\\^`|", r) }) {
			t.Errorf("%q expands to %q", in, got)
		}
	})
}
