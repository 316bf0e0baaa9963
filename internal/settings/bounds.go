package settings

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Longest is the longest duration that may be set, short enough that a few of
// them can be added without overflow: 10 years. MaxCount is the largest number of
// things.
const (
	Longest  = 10 * 365 * 24 * time.Hour
	MaxCount = 1_000_000_000
)

// Words are the words that a check tag allows (a|b|c, or |a|b if the text may be
// empty); nil = the tag is a range.
func Words(check string) []string {
	if strings.Contains(check, "..") {
		return nil
	}
	return strings.Split(check, "|")
}

// Outside says what is wrong with a value outside the range of a check tag (1ms..1h,
// 5.. without an end, 0|5.. for 0 or at least 5), and how to fix it.
func Outside(v reflect.Value, check string) (what, fix string) {
	least, most, _ := strings.Cut(check, "..")
	least, orZero := strings.CutPrefix(least, "0|")
	if orZero && v.IsZero() {
		return "", ""
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return Span(time.Duration(v.Int()), end(least, time.ParseDuration, 0), end(most, time.ParseDuration, Longest))
	case v.Kind() == reflect.Int:
		return Count(int(v.Int()), end(least, strconv.Atoi, 0), end(most, strconv.Atoi, MaxCount))
	default:
		float := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
		return Between(v.Float(), end(least, float, 0), end(most, float, math.MaxFloat64))
	}
}

// end is one end of a range in a tag.
func end[T any](text string, parse func(string) (T, error), otherwise T) T {
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

// Count says what is wrong with a number of things.
func Count(value, least, most int) (what, fix string) {
	switch {
	case value < least:
		return fmt.Sprintf("%d is too small", value), fmt.Sprintf("give at least %d", least)
	case value > most:
		return fmt.Sprintf("%d is too many", value), fmt.Sprintf("give at most %d", most)
	}
	return "", ""
}

// Span says what is wrong with a duration.
func Span(value, least, most time.Duration) (what, fix string) {
	switch {
	case value < least:
		return fmt.Sprintf("%v is too short", value), fmt.Sprintf("give at least %v", least)
	case value > most:
		return fmt.Sprintf("%v is too long", value), fmt.Sprintf("give at most %v", most)
	}
	return "", ""
}

// Between says what is wrong with a number.
func Between(value, least, most float64) (what, fix string) {
	if !(value >= least && value <= most) {
		return fmt.Sprintf("%v is out of bounds", value), fmt.Sprintf("give %v to %v", least, most)
	}
	return "", ""
}

// Wrong says what is wrong with a value by the check tag of its field, word for
// word as a script would be told; "" = nothing.
func Wrong(v reflect.Value, check string) (what, fix string) {
	words := Words(check)
	if words == nil {
		return Outside(v, check)
	}
	if slices.Contains(words, v.String()) {
		return "", ""
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return fmt.Sprintf("%q is not known", v.String()), "use " + strings.Join(words, " or ")
}
