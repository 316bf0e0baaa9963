package errtext

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Said is text from a remote peer: one line that is safe to print. It is made by [Of] or by
// decoding JSON, never by a conversion.
type Said string

// maxSaid bounds a Said, in bytes.
const maxSaid = 4 << 10

// Of cleans text from a remote peer: unprintable characters become spaces, terminal control
// sequences are removed, and text that a CI system would take for a command is broken up. It is cut
// to 4 KiB.
func Of(text string) Said {
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return Said(Plain(text))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Said) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*s = Of(text)
	return nil
}

// Plain is [Of] without a bound.
func Plain(text string) string {
	if harmless(text) {
		return text
	}
	text = breakCommands(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, withoutSequences(text)))
	return text
}

// harmless reports, without an allocation, whether Plain would change nothing.
func harmless(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '#' || c == ':' {
			return false
		}
	}
	return true
}

// withoutSequences removes sequences that begin with ESC or its one-byte forms: control sequences
// up to their final byte, and strings such as window titles up to their end.
func withoutSequences(text string) string {
	if !strings.ContainsAny(text, "\x1b\u009b\u009d\u0090\u0098\u009e\u009f") {
		return text
	}
	var out strings.Builder
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		kind := runes[i]
		if kind == 0x1b && i+1 < len(runes) {
			i++
			switch runes[i] {
			case '[':
				kind = 0x9b
			case ']', 'P', 'X', '^', '_':
				kind = 0x9d
			default:
				continue // a sequence of two
			}
		}
		switch kind {
		case 0x1b: // the last character
		case 0x9b:
			for i++; i < len(runes) && (runes[i] < '@' || runes[i] > '~'); i++ {
			}
		case 0x9d, 0x90, 0x98, 0x9e, 0x9f:
			for i++; i < len(runes) && runes[i] != '\a' && runes[i] != 0x9c; i++ {
				if runes[i] == 0x1b {
					if i+1 < len(runes) && runes[i+1] == '\\' {
						i++
					}
					break
				}
			}
		default:
			out.WriteRune(kind)
		}
	}
	return out.String()
}

// commands are the markers that GitHub, Azure, TeamCity and GitLab take for commands anywhere in logs.
var commands = strings.NewReplacer("##[", "# #[", "##vso[", "# #vso[", "##teamcity[", "# #teamcity[",
	"section_start:", "section_start :", "section_end:", "section_end :")

// command is what GitHub takes for a command at the beginning of a line. Text may be wrapped before any word.
var command = regexp.MustCompile(`(^|[\s\p{Z}]):(:\pL)`)

func breakCommands(text string) string {
	if text = commands.Replace(text); strings.Contains(text, "::") { // few have it, and the expression takes long
		text = command.ReplaceAllString(text, "$1: $2")
	}
	return text
}

// MinSecret is the length of the shortest secret that [Secrets] looks for.
const MinSecret = 6

// Secrets are tokens and other texts that must not be shown. A nil Secrets hides
// nothing.
type Secrets struct{ hide *strings.Replacer }

// NewSecrets returns the secrets of at least six characters; shorter ones occur in any text.
func NewSecrets(secrets ...string) *Secrets {
	var pairs []string
	all := slices.Clone(secrets)
	for _, s := range secrets { // as they look in URLs, in JSON, and on one line
		all = append(all, url.QueryEscape(s), url.PathEscape(s), Plain(s))
		if b, err := json.Marshal(s); err == nil {
			all = append(all, string(b[1:len(b)-1]))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	for _, s := range slices.Compact(all) {
		if len(s) >= MinSecret {
			pairs = append(pairs, s, "…")
		}
	}
	if pairs == nil {
		return nil
	}
	return &Secrets{strings.NewReplacer(pairs...)}
}

// InURL returns what [Hide] hides of a URL.
func InURL(text string) []string {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	var out []string
	if u.User != nil {
		if password, ok := u.User.Password(); ok {
			out = append(out, password)
		} else {
			out = append(out, u.User.Username())
		}
	}
	for _, values := range u.Query() {
		out = append(out, values...)
	}
	return out
}

// Scrub replaces the secrets in a text and cleans it as [Plain] does.
func (s *Secrets) Scrub(text string) string {
	return s.Hide(Plain(text))
}

// Hide replaces the secrets in a text.
func (s *Secrets) Hide(text string) string {
	if s == nil {
		return text
	}
	return s.hide.Replace(text)
}
