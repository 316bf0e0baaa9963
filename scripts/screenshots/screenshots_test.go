package main

import (
	"image"
	"image/color"
	"strings"
	"testing"
)

func TestLastFrame(t *testing.T) {
	raw := "Script started\r\n\r\x1b[Ja ▸ measure\r\n 1\r\n\x1b[2A\r\x1b[Ja ▸ measure\r\n 2\r\n\x1b[2A\r\x1b[Ja ▸ drain\r\n"
	if got := lastFrame(raw, "▸ measure"); got != "a ▸ measure\n 2" {
		t.Errorf("got %q", got)
	}
	if got := lastFrame(raw, "▸ nothing"); got != "" {
		t.Errorf("got %q of a phase that never was", got)
	}
}

func TestTerminalPage(t *testing.T) {
	got := terminalPage("\x1b[1m<a>\x1b[0m \x1b[94mpush\x1b[0m")
	if !strings.Contains(got, `<pre><span class="bold">&lt;a&gt;</span> <span class="blue">push</span></pre>`) {
		t.Errorf("got %s", got)
	}
}

func TestSection(t *testing.T) {
	got, err := section(`<body><header>h</header><main><section id="a">1</section><section id="b">2</section></main><script>s</script>`, "a", "b")
	if want := `<body><main><section id="a">1</section></main><script>s</script>`; err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := section("<body>", "a", "b"); err == nil {
		t.Error("a section of a page that has none")
	}
}

// TestReduce: no colour of a plain picture is lost, and of a colourful one
// those stay that are seen most.
func TestReduce(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 40, 40))
	for i := range 40 * 40 {
		m.SetRGBA(i%40, i/40, color.RGBA{R: uint8(i % 7 * 30), G: uint8(i), B: uint8(i >> 8), A: 255})
	}
	for x := range 40 {
		for y := range 20 {
			m.SetRGBA(x, y, color.RGBA{R: 250, A: 255})
		}
	}
	got := reduce(m)
	if len(got.Palette) != 256 || got.Palette[0] != (color.RGBA{R: 250, A: 255}) || got.At(3, 3) != (color.RGBA{R: 250, A: 255}) {
		t.Errorf("%d colours, first %v", len(got.Palette), got.Palette[0])
	}
	cut := trim(m.SubImage(image.Rect(0, 0, 40, 20)))
	if cut.Bounds().Dy() != 20 {
		t.Errorf("a picture without anything on its ground was cut to %v", cut.Bounds())
	}
	tall := image.NewRGBA(image.Rect(0, 0, 4, 100))
	tall.SetRGBA(2, 9, color.RGBA{A: 255})
	if got := trim(tall).Bounds().Dy(); got != 34 {
		t.Errorf("trimmed to %d rows, want the last with anything and 24 more", got)
	}
}
