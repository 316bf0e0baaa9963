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
	"time"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// ErrFormat is wrapped by every error about the content of a result file.
var ErrFormat = errors.New("bad result file")

// File is the name of the result within a run's directory.
const File = "result.json"

// Write writes r as indented JSON with a final newline, so that [Read] can read it. Numbers that no run can give are
// brought within bounds, with a warning. Sums that do not add up are an error that wraps [ErrFormat].
func (r *Result) Write(w io.Writer) error {
	bound(r, &r.Warnings)
	if err := r.Check(); err != nil {
		return fmt.Errorf("write result: %w: %w", ErrFormat, err)
	}
	return writeJSON(w, "result", r)
}

// writeJSON writes a document as indented JSON with a final newline.
func writeJSON(w io.Writer, what string, document any) error {
	data, err := json.MarshalIndent(document, "", "  ")
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// load reads a file of an archive.
func load[T any](what, name string, read func(io.Reader) (T, error)) (v T, err error) {
	f, err := openRegular(name)
	if err != nil {
		return v, fmt.Errorf("load %s: %w", what, err)
	}
	defer f.Close()
	if v, err = read(f); err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// Read reads one result strictly. An unknown field, another schema, sums that do not add up or
// trailing data is an error that wraps [ErrFormat].
func Read(in io.Reader) (*Result, error) {
	data, err := readBounded(in, maxResultBytes)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r := new(Result)
	if err := decode(data, Schema, r); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	errtext.CleanAll(r)
	return r, nil
}

// decode decodes a document of a schema. It checks the schema first: another version would fail on
// some field, with a message that does not name the cause.
func decode(data []byte, schema string, into any) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%w: %s", ErrFormat, jsonProblem(data, err))
	}
	if head.Schema != schema {
		return fmt.Errorf(
			"%w: its schema is %q and this program reads %q; use the program's version that wrote it",
			ErrFormat,
			head.Schema,
			schema,
		)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w: %s", ErrFormat, jsonProblem(data, err))
	}
	return nil
}

// Load reads the result of a run: path is its directory or the file itself.
func Load(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, File)
	}
	return load("result", path, Read)
}

// Check verifies the invariants of a result: its sums, plausible numbers, and lane names that a
// profile may have.
func (r *Result) Check() error {
	if err := plausible(r); err != nil {
		return err
	}
	if err := isShare(r.Coverage); err != nil {
		return err
	}
	if p := r.Part; p != nil && (p.Count < 2 || p.Count > MaxShards || p.Index >= p.Count) {
		return fmt.Errorf("part: there is no shard %d of %d", p.Index, p.Count)
	}
	if !r.Finished.IsZero() && r.Finished.Before(r.Started) {
		return fmt.Errorf("finished: %s is before it started, %s", r.Finished.Format(time.RFC3339), r.Started.Format(time.RFC3339))
	}
	u := r.Upstream
	if u.Scheduled != u.Published+u.Dropped || u.Published != u.Accepted+u.Uncertain+u.Refused {
		return fmt.Errorf(
			"upstream: %d events are not %d accepted + %d uncertain + %d refused + %d dropped",
			u.Scheduled,
			u.Accepted,
			u.Uncertain,
			u.Refused,
			u.Dropped,
		)
	}
	seen := map[string]bool{}
	for i, l := range r.Lanes {
		if err := checkLaneName(fmt.Sprintf("lanes[%d].name", i), l.Name); err != nil {
			return err
		}
		if l.Expected != l.Delivered+l.Lost() {
			return fmt.Errorf(
				"lane %s: %d expected are not %d delivered + %d silent loss + %d announced loss + %d lost with unknown order "+
					"+ %d undeliverable + %d refused + %d suspended",
				l.Name,
				l.Expected,
				l.Delivered,
				l.LostSilent,
				l.LostAnnounced,
				l.LostOrderUnknown,
				l.LostUndeliverable,
				l.LostRefused,
				l.LostSuspended,
			)
		}
		if err := l.Latency.checkIntervals(); err != nil {
			return fmt.Errorf("lane %s: %w", l.Name, err)
		}
		if seen[l.Name] {
			return fmt.Errorf("lane %s appears twice", l.Name)
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
		return fmt.Sprintf("line %d: %.200s cannot be a %.80s", lineAt(data, typed.Offset), typed.Field, typed.Value)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it ends too early; was the run cut off while it wrote?"
	}
	return fmt.Sprintf("%.200s", strings.TrimPrefix(err.Error(), "json: "))
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}
