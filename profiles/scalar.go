package profiles

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// Rate is events per second. It is written "20/s", "300/m", "3600/h" or as a
// bare number of events per second.
type Rate = settings.Rate

// ParseRate reads "20/s", "300/m", "3600/h" or a bare number of events per
// second. A rate is finite and not negative.
func ParseRate(text string) (Rate, error) {
	number, per, cut := strings.Cut(text, "/")
	seconds := map[string]float64{"s": 1, "m": 60, "h": 3600}[strings.TrimSpace(per)]
	if !cut {
		seconds = 1
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case seconds == 0:
		return 0, fmt.Errorf("%s is not a rate; write it per s, m or h, as in 20/s, 300/m, 3600/h", settings.Quote(text))
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%s is not a rate; write a number, or one like 20/s, 300/m, 3600/h", settings.Quote(text))
	case v < 0:
		return 0, fmt.Errorf("a rate of %s is negative; give 0 or more", settings.Quote(text))
	}
	return Rate(v / seconds), nil
}

// Bytes is an amount of memory.
type Bytes int64

// byteUnits are the units of amounts of memory, largest first.
var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// ParseBytes reads "256MiB", "512KiB", "1GiB" or a bare number of bytes.
func ParseBytes(text string) (Bytes, error) {
	number, size := strings.TrimSpace(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	v, err := strconv.ParseUint(number, 10, 63)
	if err != nil || v > math.MaxInt64/uint64(size) {
		return 0, fmt.Errorf(
			"%s is not an amount of memory; write a whole number of bytes, or one like 256MiB, 512KiB, 1GiB",
			settings.Quote(text),
		)
	}
	return Bytes(int64(v) * size), nil
}

// String returns the amount in the largest unit that divides it, so that ParseBytes
// reads the same value.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
