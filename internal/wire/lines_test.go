package wire

import (
	"bytes"
	"slices"
	"testing"
)

// linesOf is what LineParser does, done at leisure.
func linesOf(text []byte, limit int) (all []Line) {
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		l := Line{Data: bytes.TrimSuffix(line, []byte("\r")), Size: len(line)}
		if ended {
			l.Size++
		}
		if len(line) > limit {
			l.Data, l.TooLong = nil, true
		}
		if l.Size > 0 {
			all = append(all, l)
		}
		text = rest
	}
	return all
}

func sameLine(a, b Line) bool {
	return a.Size == b.Size && a.TooLong == b.TooLong && bytes.Equal(a.Data, b.Data) && (a.Data == nil) == (b.Data == nil)
}

func collect(text []byte, limit int, cuts []int) (all []Line) {
	p := LineParser{Limit: limit}
	emit := func(l Line) {
		if l.Data != nil {
			l.Data = append([]byte{}, l.Data...)
		}
		all = append(all, l)
	}
	at := 0
	for _, n := range cuts {
		n = min(n, len(text)-at)
		p.Feed(text[at:at+n], emit)
		at += n
	}
	p.Feed(text[at:], emit)
	p.End(emit)
	return all
}

func TestLineParser(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Line
	}{
		{"", nil},
		{"{}\n", []Line{{Data: []byte("{}"), Size: 3}}},
		{"{}\r\n\n", []Line{{Data: []byte("{}"), Size: 4}, {Data: []byte{}, Size: 1}}},
		{"a\r\rb\n", []Line{{Data: []byte("a\r\rb"), Size: 5}}},
		{"12345678\n", []Line{{Data: []byte("12345678"), Size: 9}}},
		{"123456789\nx\n", []Line{{Size: 10, TooLong: true}, {Data: []byte("x"), Size: 2}}},
		{"x\nlast", []Line{{Data: []byte("x"), Size: 2}, {Data: []byte("last"), Size: 4}}},
	} {
		for piece := 1; piece <= len(c.text)+1; piece++ {
			cuts := slices.Repeat([]int{piece}, len(c.text)/piece)
			if got := collect([]byte(c.text), 8, cuts); !slices.EqualFunc(got, c.want, sameLine) {
				t.Errorf("%q in pieces of %d: %+v", c.text, piece, got)
			}
		}
	}
}

func FuzzLineParser(f *testing.F) {
	f.Add([]byte("{}\r\n\n123456789012345678901234567890\nx"), []byte{1, 0, 3, 9})
	f.Fuzz(func(t *testing.T, text, pieces []byte) {
		cuts := make([]int, len(pieces))
		for i, p := range pieces {
			cuts[i] = int(p)
		}
		want := linesOf(text, 16)
		if got := collect(text, 16, cuts); !slices.EqualFunc(got, want, sameLine) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	})
}
