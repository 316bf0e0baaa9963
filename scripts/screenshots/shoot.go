package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// shoot photographs a page, cuts off what is empty below it, and writes it with
// a palette.
func (s *studio) shoot(ctx context.Context, p picture, file string) error {
	profile, err := os.MkdirTemp(s.temp, "browser-")
	if err != nil {
		return err
	}
	raw := filepath.Join(profile, "raw.png")
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir=" + profile, "--virtual-time-budget=5000", fmt.Sprintf("--window-size=%d,%d", p.size.width, p.size.height), "--screenshot=" + raw,
	}
	if p.dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	if err := s.command(ctx, nil, s.browser, append(args, "file://"+p.page)...); err != nil {
		return err
	}
	f, err := os.Open(raw)
	if err != nil {
		return err
	}
	defer f.Close()
	emission, err := png.Decode(f)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, reduce(trim(emission))); err != nil {
		return err
	}
	if b.Len() > most {
		return fmt.Errorf("%d KiB are more than %d", b.Len()>>10, most>>10)
	}
	fmt.Fprintf(s.log, "%s: %d KiB\n", file, b.Len()>>10)
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// trim cuts rows of one colour off the lower end, but for a margin.
func trim(m image.Image) image.Image {
	const margin = 24
	r := m.Bounds()
	last := r.Max.Y - 1
	ground := m.At(r.Min.X, last)
	for ; last > r.Min.Y; last-- {
		for x := r.Min.X; x < r.Max.X; x++ {
			if m.At(x, last) != ground {
				r.Max.Y = min(r.Max.Y, last+1+margin)
				return m.(interface {
					SubImage(image.Rectangle) image.Image
				}).SubImage(r)
			}
		}
	}
	return m
}

// reduce gives an image a palette of its 256 most frequent colours; the others
// are the edges of letters, and become the nearest of them.
func reduce(m image.Image) *image.Paletted {
	r := m.Bounds()
	counts := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(m.At(x, y)).(color.RGBA) }
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(uint32(a.R)<<16|uint32(a.G)<<8|uint32(a.B), uint32(b.R)<<16|uint32(b.G)<<8|uint32(b.B)))
	})
	palette := make(color.Palette, 0, 256)
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	index := map[color.RGBA]uint8{}
	out := image.NewPaletted(image.Rect(0, 0, r.Dx(), r.Dy()), palette)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := at(x, y)
			i, known := index[c]
			if !known {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			out.SetColorIndex(x-r.Min.X, y-r.Min.Y, i)
		}
	}
	return out
}
