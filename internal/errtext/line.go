package errtext

import "strings"

// Line makes one short line of what a target or a library said.
func Line(s string) string {
	s = s[:min(len(s), 4<<10)]
	s = strings.Join(strings.Fields(Plain(s)), " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
