// Package breach holds how the reference server breaks each row of conformance on
// purpose. Most rows are broken by an edit of messages on their way out, which is data
// in [Table]; the others are a behaviour, for which the server asks by the row's name.
package breach

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
)

// Plan is a row that is to be broken, and when.
type Plan struct {
	Row  string
	Mode eventmeter.Mode // "" = every mode that has the row
	// Every breaks each Every-th occasion; 0 and 1 = all.
	Every uint32
	// Above breaks the row only while more streams and webhook subscriptions than
	// that are open, At only from so long after the first event on.
	Above int
	At    time.Duration
}

// Set is the rows that a server breaks; nil = none. It is safe for concurrent use.
type Set struct {
	open  func() int64 // streams and webhook subscriptions
	began atomic.Int64 // when the first event was published, in Unix ns; 0 = not yet
	all   []*planted
}

// planted is a plan that is carried out.
type planted struct {
	Plan
	of        Breach
	occasions atomic.Int64
	broken    atomic.Int64
	memory    sync.Map // of edits that depend on what was sent before
}

// New returns the set of plans, nil for none. open returns how many streams and webhook
// subscriptions are open.
func New(plans []Plan, open func() int64) *Set {
	if len(plans) == 0 {
		return nil
	}
	s := &Set{open: open}
	for _, p := range plans {
		s.all = append(s.all, &planted{Plan: p, of: Table[p.Row]})
	}
	return s
}

// Begin says when the first event was published.
func (s *Set) Begin(now time.Time) {
	if s != nil {
		s.began.Store(now.UnixNano())
	}
}

// Breaks reports whether the server is to break a row on this occasion, in a mode if the row
// exists in several.
func (s *Set) Breaks(row string, mode ...eventmeter.Mode) bool {
	if s == nil {
		return false
	}
	for _, p := range s.all {
		if p.Row == row && (p.Mode == "" || mode == nil || p.Mode == mode[0]) && s.strikes(p) {
			return true
		}
	}
	return false
}

// strikes counts an occasion, and reports whether it is one on which the row is broken.
func (s *Set) strikes(p *planted) bool {
	began := s.began.Load()
	switch {
	case p.At > 0 && (began == 0 || time.Since(time.Unix(0, began)) < p.At):
		return false
	case p.Above > 0 && s.open() <= int64(p.Above):
		return false
	case p.Every > 1 && p.occasions.Add(1)%int64(p.Every) != 0:
		return false
	}
	p.broken.Add(1)
	return true
}

// Broken returns how often each row was broken.
func (s *Set) Broken() map[string]int64 {
	out := map[string]int64{}
	if s != nil {
		for _, p := range s.all {
			if n := p.broken.Load(); n > 0 {
				out[p.Row] += n
			}
		}
	}
	return out
}
