package profiles

import (
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"256MiB": 256 << 20, " 64 MiB ": 64 << 20, "1GiB": 1 << 30, "512KiB": 512 << 10, "1000": 1000, "0": 0,
	} {
		got, err := ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
		if again, err := ParseBytes(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "256MB", "1e9", "9999999999GiB", "NaN"} {
		if got, err := ParseBytes(text); err == nil || !strings.Contains(err.Error(), "amount of memory") {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
