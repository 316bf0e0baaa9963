package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrFormat is wrapped by every error about the content of a result file.
var ErrFormat = errors.New("bad result file")

// File is the name of the result within a run's directory.
const File = "result.json"

// Write writes r as indented JSON with a final newline.
func (r *Result) Write(w io.Writer) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Read reads one result, strictly: an unknown field, another schema, sums that
// do not add up or anything after the result is an error that wraps
// [ErrFormat].
func Read(in io.Reader) (*Result, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	// The schema first: another version would fail on some field, with a
	// message that does not name the reason.
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrFormat, jsonProblem(data, err))
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("%w: its schema is %q and this program reads %q; use the program's version that wrote it", ErrFormat, head.Schema, Schema)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	r := new(Result)
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrFormat, jsonProblem(data, err))
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return r, nil
}

// Load reads the result of a run: path is its directory or the file itself.
func Load(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, File)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load result: %w", err)
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Check verifies the sums that hold in every result.
func (r *Result) Check() error {
	u := r.Upstream
	if u.Shots != u.Fired+u.Dropped || u.Fired != u.Accepted+u.Uncertain+u.Refused {
		return fmt.Errorf("upstream: %d shots are not %d accepted + %d uncertain + %d refused + %d dropped", u.Shots, u.Accepted, u.Uncertain, u.Refused, u.Dropped)
	}
	seen := map[string]bool{}
	for _, l := range r.Lanes {
		if l.Expected != l.Delivered+l.Lost() {
			return fmt.Errorf("lane %s: %d expected are not %d delivered + %d lost in silence + %d lost and announced + %d lost with their order unknown + %d undeliverable + %d refused + %d suspended",
				l.Name, l.Expected, l.Delivered, l.LostSilent, l.LostAnnounced, l.LostOrderUnknown, l.LostUndeliverable, l.LostRefused, l.LostSuspended)
		}
		if seen[l.Name] {
			return fmt.Errorf("lane %s stands there twice", l.Name)
		}
		seen[l.Name] = true
	}
	return nil
}

// jsonProblem turns a decoder's error into one line with the place.
func jsonProblem(data []byte, err error) string {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("line %d: %v", lineAt(data, syntax.Offset), err)
	case errors.As(err, &typed):
		return fmt.Sprintf("line %d: %s cannot be a %s", lineAt(data, typed.Offset), typed.Field, typed.Value)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it ends too early; was the run cut off while it wrote?"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}
