package settings

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Longest is the longest duration that may be set: 10 years, so that sums of a few
// durations do not overflow. MaxCount is the largest count.
const (
	Longest  = 10 * 365 * 24 * time.Hour
	MaxCount = 1_000_000_000
)

// Words returns the words that a check tag allows (a|b|c, or |a|b if the text may be
// empty); nil means that the tag is a range.
func Words(check string) []string {
	if strings.Contains(check, "..") {
		return nil
	}
	return strings.Split(check, "|")
}

// Outside returns what is wrong with a value outside the range of a check tag
// (1ms..1h, 5.. without an end, 0|5.. for 0 or at least 5), and how to fix it; both
// are empty for a valid value.
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

// end parses one end of a range in a tag.
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

// Count returns what is wrong with a count, if anything, and how to fix it.
func Count(value, least, most int) (what, fix string) {
	switch {
	case value < least:
		return fmt.Sprintf("%d is too small", value), fmt.Sprintf("give at least %d", least)
	case value > most:
		return fmt.Sprintf("%d is too many", value), fmt.Sprintf("give at most %d", most)
	}
	return "", ""
}

// Span returns what is wrong with a duration, if anything, and how to fix it.
func Span(value, least, most time.Duration) (what, fix string) {
	switch {
	case value < least:
		return fmt.Sprintf("%v is too short", value), fmt.Sprintf("give at least %v", least)
	case value > most:
		return fmt.Sprintf("%v is too long", value), fmt.Sprintf("give at most %v", most)
	}
	return "", ""
}

// Between returns what is wrong with a number, if anything, and how to fix it.
func Between(value, least, most float64) (what, fix string) {
	if !(value >= least && value <= most) {
		return fmt.Sprintf("%v is out of bounds", value), fmt.Sprintf("give %v to %v", least, most)
	}
	return "", ""
}

// Wrong returns what is wrong with a value by the check tag of its field, in a
// script's terms; "" = nothing.
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

// Address parses the address of a server, and returns what is wrong with it, if
// anything. An address must contain no credentials, because addresses are printed and
// stored.
func Address(value string, schemes ...string) (u *url.URL, what, fix string) {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, Quote(value) + " is not an address", fmt.Sprintf("write it like %s://127.0.0.1:8080", schemes[0])
	case !slices.Contains(schemes, u.Scheme):
		return nil, Quote(u.Scheme) + " does not fit here", "it must be " + strings.Join(schemes, " or ")
	case u.User != nil:
		return nil, "holds a user name or a password", "put credentials into headers or tokens, which are not stored"
	}
	return u, "", ""
}

// Listenable reports whether address is a valid address to listen on.
func Listenable(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}

// Loopback reports whether a host name is a loopback address or localhost.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Quote quotes a value, shortened so that a message stays on one line.
func Quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:57], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// ParseDuration reads a duration of 0 or more.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if err == nil && d >= 0 {
		return d, nil
	}
	number, notNumber := strconv.ParseFloat(text, 64)
	switch {
	case err == nil:
		return 0, fmt.Errorf("%s is negative; give 0 or more", text)
	case notNumber == nil && number == 0:
		return 0, nil
	case notNumber == nil && math.Abs(number) < 1e9:
		unit := "s"
		if number >= 100 {
			unit = "ms"
		}
		return 0, fmt.Errorf("%s has no unit; did you mean %s%s?", text, text, unit)
	case strings.HasSuffix(text, "d"):
		return 0, fmt.Errorf("%s is not a duration; days are written in hours, 1d as 24h", Quote(text))
	case strings.ContainsRune(text, ' '):
		return 0, fmt.Errorf("%s is not a duration; write it without spaces, as in %s", Quote(text), strings.ReplaceAll(text, " ", ""))
	}
	return 0, fmt.Errorf("%s is not a duration; write a number and a unit (ms, s, m, h), as in 250ms or 10s", Quote(text))
}
