package eventmeter

import (
	"bytes"
	"fmt"
)

// Stamp identifies one emission by its run, its source and its sequence number.
// The sequence numbers of a source start at 1 and increase by one with every
// published emission, so that the ledger can tell a missing emission from one that
// was never published.
//
// Its text form, the probe id, is all that the generator sends through the
// target: 30 bytes of lower-case ASCII, safe in any JSON string or URL,
//
//	evtm-RRRRRRRR-SSSS-QQQQQQQQ-CC
//
// with run, source, sequence and an eight-bit check, all in hexadecimal.
type Stamp struct {
	Run    uint32
	Source uint16
	Seq    uint32
}

// ProbeLen is the length of a probe id in bytes.
const ProbeLen = 30

const (
	probePrefix = "evtm-"
	hexDigits   = "0123456789abcdef"
)

var probePrefixBytes = []byte(probePrefix)

// String returns the probe id.
func (s Stamp) String() string { return string(s.Append(make([]byte, 0, ProbeLen))) }

// Append appends the probe id to dst. It allocates only if dst is too small.
func (s Stamp) Append(dst []byte) []byte {
	dst = append(dst, probePrefix...)
	dst = appendHex(dst, uint64(s.Run), 8)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.Source), 4)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.Seq), 8)
	dst = append(dst, '-')
	return appendHex(dst, uint64(s.check()), 2)
}

// ParseStamp reads a probe id that fills text completely.
func ParseStamp(text string) (Stamp, error) {
	s, ok := parseProbe([]byte(text))
	if !ok || len(text) != ProbeLen {
		return Stamp{}, fmt.Errorf("%q is not a probe id (want evtm-RRRRRRRR-SSSS-QQQQQQQQ-CC)", text)
	}
	return s, nil
}

// FindStamp scans b for the first valid probe id. It decodes nothing else and
// does not allocate, so a sink can call it on every raw message.
func FindStamp(b []byte) (Stamp, bool) {
	for {
		i := bytes.Index(b, probePrefixBytes)
		if i < 0 {
			return Stamp{}, false
		}
		if s, ok := parseProbe(b[i:]); ok {
			return s, true
		}
		b = b[i+len(probePrefix):]
	}
}

func parseProbe(b []byte) (Stamp, bool) {
	if len(b) < ProbeLen || string(b[:5]) != probePrefix || b[13] != '-' || b[18] != '-' || b[27] != '-' {
		return Stamp{}, false
	}
	run, ok1 := parseHex(b[5:13])
	source, ok2 := parseHex(b[14:18])
	seq, ok3 := parseHex(b[19:27])
	check, ok4 := parseHex(b[28:30])
	s := Stamp{Run: run, Source: uint16(source), Seq: seq}
	return s, ok1 && ok2 && ok3 && ok4 && uint8(check) == s.check()
}

// check detects a probe id that was damaged on its way: without it, a changed
// digit would identify another emission.
func (s Stamp) check() uint8 {
	h := uint32(2166136261)
	for _, v := range [...]uint32{s.Run, uint32(s.Source), s.Seq} {
		for range 4 {
			h = (h ^ v&0xff) * 16777619
			v >>= 8
		}
	}
	return uint8(h ^ h>>8 ^ h>>16 ^ h>>24)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, hexDigits[v>>(4*i)&0xf])
	}
	return dst
}

// parseHex reads lower-case hexadecimal digits, at most eight.
func parseHex(b []byte) (v uint32, ok bool) {
	var odd uint8
	for _, c := range b {
		d := hexValues[c]
		odd |= d
		v = v<<4 | uint32(d&0xf)
	}
	return v, odd < 16
}

// hexValues are the values of lower-case digits, 16 for all other bytes.
var hexValues = func() (t [256]uint8) {
	for c := range t {
		t[c] = 16
	}
	for v, c := range []byte(hexDigits) {
		t[c] = uint8(v)
	}
	return t
}()
