package wire

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// The values and expansions of RFC 6570, section 3.2, without associations,
// which no argument can be.
var templateValues = map[string]any{
	"count": []string{"one", "two", "three"}, "dom": []string{"example", "com"}, "dub": "me/too", "hello": "Hello World!", "half": "50%",
	"var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar", "list": []string{"red", "green", "blue"},
	"v": "6", "x": "1024", "y": "768", "empty": "", "empty_list": []string{}, "undef": nil,
}

func TestURITemplate(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a/ü": "a/%C3%BC", "%41": "%41",
		"{count}": "one,two,three", "{count*}": "one,two,three", "{/count}": "/one,two,three", "{/count*}": "/one/two/three",
		"{;count}": ";count=one,two,three", "{;count*}": ";count=one;count=two;count=three",
		"{?count}": "?count=one,two,three", "{?count*}": "?count=one&count=two&count=three", "{&count*}": "&count=one&count=two&count=three",
		"{var}": "value", "{hello}": "Hello%20World%21", "{half}": "50%25", "O{empty}X": "OX", "O{undef}X": "OX",
		"{x,y}": "1024,768", "{x,hello,y}": "1024,Hello%20World%21,768", "?{x,empty}": "?1024,", "?{x,undef}": "?1024", "?{undef,y}": "?768",
		"{var:3}": "val", "{var:30}": "value", "{list}": "red,green,blue", "{list*}": "red,green,blue",
		"{+var}": "value", "{+hello}": "Hello%20World!", "{+half}": "50%25", "{base}index": "http%3A%2F%2Fexample.com%2Fhome%2Findex",
		"{+base}index": "http://example.com/home/index", "{+path}/here": "/foo/bar/here", "{+path:6}/here": "/foo/b/here",
		"{#x,hello,y}": "#1024,Hello%20World!,768", "{#path,x}/here": "#/foo/bar,1024/here",
		"{#path:6}here": "#/foo/bhere", "foo{#empty}": "foo#", "foo{#undef}": "foo",
		"{.who,who}": ".fred.fred", "{.half,who}": ".50%25.fred", "www{.dom*}": "www.example.com", "X{.empty}": "X.", "X{.undef}": "X",
		"X{.list}": "X.red,green,blue", "X{.list*}": "X.red.green.blue", "X{.empty_list}": "X",
		"{/who,dub}": "/fred/me%2Ftoo", "{/var,empty}": "/value/", "{/var:1,var}": "/v/value", "{/list*,path:4}": "/red/green/blue/%2Ffoo",
		"{;v,empty,who}": ";v=6;empty;who=fred", "{;v,bar,who}": ";v=6;who=fred", "{;hello:5}": ";hello=Hello",
		"{?x,y,empty}": "?x=1024&y=768&empty=", "{?x,y,undef}": "?x=1024&y=768", "{?var:3}": "?var=val",
		"?fixed=yes{&x}": "?fixed=yes&x=1024", "{&var:3}": "&var=val",
	} {
		u, err := ParseURITemplate(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := u.Expand(templateValues); got != want || err != nil {
			t.Errorf("%s is %s, %v, want %s", in, got, err, want)
		}
	}
	u, err := ParseURITemplate("event://{a}/{b,a*}{?c}")
	if err != nil || !slices.Equal(u.Names(), []string{"a", "b", "c"}) {
		t.Errorf("%v %v", u.Names(), err)
	}
	if got, err := u.Expand(
		map[string]any{"b": []string{"", "漢"}, "c": "äß\xff"},
	); got != "event:///,%E6%BC%A2?c=%C3%A4%C3%9F%FF" ||
		err != nil {
		t.Error(got, err)
	}
	for _, bad := range []string{
		"{", "}", "a{b", "a}b", "{}", "{=a}", "{a b}", "{a:0}", "{a:x}", "{a:10000}", "{a,}", "{a{b}}", "{ü}", "a b", "%4", "\xff",
		strings.Repeat("a", maxURITemplate+1),
	} {
		if _, err := ParseURITemplate(bad); err == nil {
			t.Errorf("%.20s was taken", bad)
		}
	}
}

// TestURITemplateRefusesValues: a value that the library expands wrongly is an
// error, and only where it does.
func TestURITemplateRefusesValues(t *testing.T) {
	for _, c := range []struct{ template, value, want string }{
		{"{v}", "a\x00b", ""},
		{"{v:2}", "äöü", ""},
		{"{v:2}", "aou", "ao"},
		{"{w,v:2}", "äöü", ""},
		{"{+v}", "a%2Fb", ""},
		{"{#v}", "a%2Fb", ""},
		{"{+v}", "50%", "50%25"},
		{"{v}", "a%2Fb", "a%252Fb"},
		{"x:{v}", "ä", "x:%C3%A4"},
	} {
		u, err := ParseURITemplate(c.template)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []any{c.value, []string{c.value}} {
			if _, list := value.([]string); list && c.template == "{v:2}" && c.want != "" {
				continue // a prefix is of a text only
			}
			if got, err := u.Expand(map[string]any{"v": value}); got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%s of %q is %q, %v", c.template, value, got, err)
			}
		}
	}
}

// FuzzURITemplate: whatever is taken expands to a URI's characters, and a
// simple expansion is what net/url decodes to the value again.
func FuzzURITemplate(f *testing.F) {
	f.Add("event://chat.message/{channel}{?from,to*}", "x/ ü%")
	f.Add("{+a:3}%41{#b}{&c*}", "50%")
	f.Add("é{a}{;b:2}{/c*}", "漢\xff")
	f.Fuzz(func(t *testing.T, in, value string) {
		u, err := ParseURITemplate(in)
		if err != nil {
			return
		}
		values := map[string]any{}
		for i, n := range u.Names() {
			values[n] = []any{value, []string{"", "a,b", value}, nil}[i%3]
		}
		got, err := u.Expand(values)
		if err != nil {
			return
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("{}\"<>\\^`|", r) }) {
			t.Errorf("%q expands to %q", in, got)
		}
		simple, err := ParseURITemplate("{v}")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := simple.Expand(map[string]any{"v": value}); err == nil {
			if back, err := url.PathUnescape(got); err != nil || back != value {
				t.Errorf("%q expands to %q, which is %q, %v", value, got, back, err)
			}
		} else if !strings.Contains(value, "\x00") {
			t.Errorf("%q: %v", value, err)
		}
	})
}
