package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// TraceEntry is one line of a trace: an event and its time. A line is a JSON object:
//
//	{"t":1.25,"source":3,"event":"chat.message","payload":{"text":"hello"}}
//
// t is in seconds since the trace began. Instead of t, every line may have time, in
// RFC 3339; times then count from that of the first line. source (default 0) and event
// may be left out. Lines are in the order of time. Empty lines, and lines that begin
// with #, are skipped.
type TraceEntry struct {
	At      time.Duration
	Source  uint16
	Event   string
	Payload json.RawMessage
}

// traceLine is the JSON of an entry.
type traceLine struct {
	T       json.Number     `json:"t,omitempty"`
	Time    *time.Time      `json:"time,omitempty"`
	Source  uint16          `json:"source,omitempty"`
	Event   string          `json:"event,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// maxTraceLine bounds a line of a trace, in bytes.
const maxTraceLine = 4 << 20

// ReadTrace reads a whole trace, which must have at least one entry. The error names
// the line that is wrong.
func ReadTrace(in io.Reader) ([]TraceEntry, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxTraceLine)
	var out []TraceEntry
	var began time.Time
	n := 0
	for lines.Scan() {
		n++
		text := lines.Bytes()
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with this mark
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		e, at, err := readTraceLine(text)
		switch {
		case err != nil:
		case at == nil && !began.IsZero() || at != nil && len(out) > 0 && began.IsZero():
			err = errors.New("some lines have t and some have time; use one of them in all lines")
		case at != nil && began.IsZero():
			began = *at
		case at != nil:
			e.At = at.Sub(began)
		}
		if err == nil && len(out) > 0 && e.At < out[len(out)-1].At {
			err = errors.New("it is earlier than the line before; sort the lines by time")
		}
		if err != nil {
			return nil, fmt.Errorf("bad trace: line %d: %w", n, err)
		}
		out = append(out, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("bad trace: line %d: %w", n+1, err)
	}
	if len(out) == 0 {
		return nil, errors.New("bad trace: it has no entries")
	}
	return out, nil
}

func readTraceLine(text []byte) (e TraceEntry, at *time.Time, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var l traceLine
	if err := d.Decode(&l); err != nil {
		return e, nil, fmt.Errorf(`%w; write it like {"t":1.25,"payload":{"text":"hello"}}`, err)
	}
	if d.More() {
		return e, nil, errors.New("there is more than one object; write one object per line")
	}
	payload := bytes.TrimSpace(l.Payload)
	if len(payload) == 0 || payload[0] != '{' {
		return e, nil, errors.New("its payload is not a JSON object")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, payload); err != nil {
		return e, nil, err
	}
	e = TraceEntry{Source: l.Source, Event: l.Event, Payload: compact.Bytes()}
	switch {
	case l.T != "" && l.Time != nil, l.T == "" && l.Time == nil:
		return e, nil, errors.New("give either t, in seconds, or time")
	case l.Time != nil:
		return e, l.Time, nil
	}
	seconds, err := l.T.Float64()
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return e, nil, fmt.Errorf("t %s is out of range; give seconds from 0", l.T)
	}
	e.At = time.Duration(math.Round(seconds * 1e9))
	return e, nil, nil
}

// Append appends the entry's line, with its line break.
func (e TraceEntry) Append(dst []byte) ([]byte, error) {
	t := fmt.Sprintf("%d.%09d", e.At/time.Second, e.At%time.Second)
	line, err := json.Marshal(traceLine{T: json.Number(t), Source: e.Source, Event: e.Event, Payload: e.Payload})
	if err != nil {
		return dst, fmt.Errorf("trace: %w", err)
	}
	return append(append(dst, line...), '\n'), nil
}
