package wire

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yosida95/uritemplate/v3"
)

// URITemplate is a URI template of RFC 6570, all four levels. It is safe for
// concurrent use.
type URITemplate struct {
	template           *uritemplate.Template
	prefixed, reserved bool // it has a {var:3}; it has a {+var} or {#var}
}

// maxURITemplate bounds a template, in bytes: a template that a target lists is
// expanded for every subscription.
const maxURITemplate = 64 << 10

var (
	prefixModifier    = regexp.MustCompile(`\{[^}]*:`)
	reservedExpansion = regexp.MustCompile(`\{[+#]`)
	percentTriplet    = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

// ParseURITemplate parses a template. The error says what is wrong with it.
func ParseURITemplate(text string) (*URITemplate, error) {
	if len(text) > maxURITemplate {
		return nil, fmt.Errorf("the template is longer than %d bytes", maxURITemplate)
	}
	t, err := uritemplate.New(text)
	if err != nil {
		return nil, err
	}
	return &URITemplate{t, prefixModifier.MatchString(text), reservedExpansion.MatchString(text)}, nil
}

// Names returns the template's variables, each once, in order. The caller must
// not change them.
func (t *URITemplate) Names() []string { return t.template.Varnames() }

// Expand fills in values, which are texts (string) or lists ([]string). A variable
// without a value, or with one of another type, is undefined and left out. The
// error says which value cannot be expanded correctly: non-ASCII text where the
// template has a prefix, a percent-encoded character where it has {+var} or {#var},
// and NUL.
func (t *URITemplate) Expand(values map[string]any) (string, error) {
	vars := make(uritemplate.Values, len(values))
	for name, value := range values {
		var list []string
		switch value := value.(type) {
		case string:
			list = []string{value}
		case []string:
			list = value
		}
		encoded := make([]string, len(list))
		for i, text := range list {
			var err error
			if encoded[i], err = t.octets(text); err != nil {
				return "", fmt.Errorf("the value of %s %w", name, err)
			}
		}
		if _, single := value.(string); single {
			vars.Set(name, uritemplate.String(encoded[0]))
		} else {
			vars.Set(name, uritemplate.List(encoded...))
		}
	}
	uri, err := t.template.Expand(vars)
	if err != nil {
		return "", err
	}
	// Characters outside ASCII are left only in the literals.
	return percentEncodeNonASCII(uri), nil
}

// octets returns text with each byte outside ASCII as a character of its own.
// The library (v3.0.2) percent-encodes code points, where the RFC requires the
// octets of UTF-8; in the text returned here both are the same. The library also
// cuts a prefix by bytes instead of characters, encodes the percent sign of a
// triplet where the RFC keeps it, and leaves out NUL. Such values are errors rather
// than wrong URIs.
func (t *URITemplate) octets(text string) (string, error) {
	ascii := true
	for i := range len(text) {
		ascii = ascii && text[i] < 0x80
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "", fmt.Errorf("holds a NUL character")
	case t.prefixed && !ascii:
		return "", fmt.Errorf("is not ASCII, and the template has a prefix such as {var:3}")
	case t.reserved && percentTriplet.MatchString(text):
		return "", fmt.Errorf("holds a percent-encoded character, and the template has {+var} or {#var}; write it decoded")
	case ascii:
		return text, nil
	}
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(rune(text[i]))
	}
	return b.String(), nil
}

func percentEncodeNonASCII(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] < 0x80 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
