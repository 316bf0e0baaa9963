package streamclient

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// appendRequest writes a request as HTTP/1.1. It ignores header fields
// that determine the framing and writes its own.
func appendRequest(dst []byte, r *Request, host string) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	path := r.Path
	if path == "" {
		path = "/"
	}
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = appendClean(dst, host)
	var room [16]string // few names need no allocation
	names := slices.AppendSeq(room[:0], maps.Keys(r.Header))
	slices.Sort(names)
	for _, k := range names {
		switch http.CanonicalHeaderKey(k) {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		if !token([]byte(k)) {
			continue
		}
		for _, v := range r.Header[k] {
			dst = append(dst, "\r\n"...)
			dst = append(dst, k...)
			dst = append(dst, ": "...)
			dst = appendClean(dst, v)
		}
	}
	if len(r.Body) > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		dst = append(dst, "\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.Body)), 10)
	}
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, r.Body...)
}

// appendClean appends a value with its line breaks replaced by spaces.
func appendClean(dst []byte, v string) []byte {
	if strings.ContainsAny(v, "\r\n\x00") {
		v = strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ").Replace(v)
	}
	return append(dst, v...)
}
