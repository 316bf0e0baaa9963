package profiles

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one problem in a profile.
type Problem struct {
	// Where is file:line, or the override that has the problem.
	Where string
	// Key is the path of the key, as an override would spell it; empty if the YAML
	// itself could not be read.
	Key string
	// What is the problem, and Fix how to fix it.
	What, Fix string

	line int // for sorting; overrides come last
}

// String returns one line: where: key: what; fix. Long parts are cut.
func (p Problem) String() string {
	text := short(p.Where, 200) + ": "
	if p.Key != "" {
		text += short(p.Key, 120) + ": "
	}
	text += short(p.What, 400)
	if p.Fix != "" {
		text += "; " + short(p.Fix, 800)
	}
	return text
}

// short returns at most most bytes of s, with control characters escaped, so that a
// problem stays on one line.
func short(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-3], "") + "..."
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Error lists all problems of a profile, in the order of the file.
type Error struct{ Problems []Problem }

// maxLines is how many problems the text of an error lists.
const maxLines = 20

// Error returns one line for each problem, up to a limit.
func (e *Error) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxLines {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(e.Problems)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// oneProblem returns the first problem of an error of [Parse], and the number of
// further ones, on one line.
func oneProblem(err error) string {
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		return err.Error()
	}
	text := e.Problems[0].String()
	if more := len(e.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

func newError(problems []Problem) *Error {
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.line - b.line })
	return &Error{problems}
}

// advise suggests the known word that was probably meant, or lists all known words.
func advise(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	if len(known) == 0 {
		return ""
	}
	return "there is " + strings.Join(known, ", ")
}

// Nearest returns the known word that differs from word by a small typing error, or
// "".
func Nearest(word string, known []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, k := range known {
		if strings.EqualFold(k, word) {
			return k
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbouring
// characters that turn a into b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(next[j-1]+1, row[j]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
