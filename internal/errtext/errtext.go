// Package errtext makes error texts from the messages of a remote peer: one short line, without the
// secrets that a URL may contain.
package errtext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"unicode"
)

// MaxLine bounds a line, in bytes.
const MaxLine = 200

// FirstLine returns the first line of body that is not blank, cut to [MaxLine]
// bytes. A JSON document that goes over several lines is put on one. Characters
// that cannot be printed become spaces, and runs of space become one. It is ""
// if the body holds nothing that can be printed.
func FirstLine(body []byte) string {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && (body[0] == '{' || body[0] == '[') {
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			return clean(compact.Bytes())
		}
	}
	for line := range bytes.Lines(body) {
		if text := clean(line); text != "" {
			return text
		}
	}
	return ""
}

func clean(b []byte) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b), " "))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > MaxLine {
		text = strings.ToValidUTF8(text[:MaxLine], "") + "…"
	}
	return text
}

// URL returns u for an error text: without its user, its fragment and the
// values of its query.
func URL(u *url.URL) string {
	shown := *u
	shown.User, shown.Fragment, shown.RawFragment, shown.RawQuery, shown.ForceQuery = nil, "", "", "", false
	text := shown.String()
	var keys []string
	for key := range u.Query() {
		keys = append(keys, url.QueryEscape(key)+"=…")
	}
	sort.Strings(keys)
	if len(keys) > 0 {
		text += "?" + strings.Join(keys, "&")
	}
	return text
}

// Address is [URL] of a text that need not be a valid URL. Text that is not a valid URL is cut
// before its query, and the part before an @ is removed.
func Address(text string) string {
	if u, err := url.Parse(text); err == nil {
		return URL(u)
	}
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			text = scheme + "://" + rest[i+1:]
		}
	}
	return text
}

// minSecret is the length of the shortest text that [Hide] replaces. Shorter ones, such as "1", are
// no secrets and occur in any text.
const minSecret = 4

// Hide replaces the secrets of u in text: its password, its user if there is no password, the
// values of its query, and the additional secrets. A remote peer may repeat them.
func Hide(text string, u *url.URL, besides ...string) string {
	secrets := append([]string(nil), besides...)
	if u.User != nil {
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		} else {
			secrets = append(secrets, u.User.Username())
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	// The longest first, so that none is cut by one that is a part of it.
	sort.Slice(secrets, func(i, j int) bool { return len(secrets[i]) > len(secrets[j]) })
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "…")
			text = strings.ReplaceAll(text, url.QueryEscape(secret), "…")
		}
	}
	return text
}

// Answered says what was answered that is not 200. It reads the head of the body,
// and leaves closing it to the caller.
func Answered(resp *http.Response) error {
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what was read is what is shown
	u := resp.Request.URL
	text := fmt.Sprintf("%s %s: %s", resp.Request.Method, URL(u), resp.Status)
	if said := FirstLine(head); said != "" {
		text += ": " + said
	}
	return errors.New(Hide(text, u))
}
