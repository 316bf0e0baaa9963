package bench

import (
	"strings"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// said is an error with a text that is safe to print. What callers branch on is
// in the error beneath.
type said struct {
	text  string
	cause error
}

func (e *said) Error() string { return e.text }
func (e *said) Unwrap() error { return e.cause }

// scrubError cleans each line of an error's text and hides the secrets in it.
func scrubError(err error, secrets *errtext.Secrets) error {
	if err == nil {
		return nil
	}
	was := err.Error()
	lines := strings.Split(was, "\n") // several findings about a profile have a line each
	for i := range lines {
		lines[i] = secrets.Scrub(lines[i])
	}
	if text := strings.Join(lines, "\n"); text != was {
		return &said{text, err}
	}
	return err
}
