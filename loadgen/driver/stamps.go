package driver

import (
	"bytes"
	"iter"
	"slices"

	"github.com/eventmeter/eventmeter"
)

// StampsIn returns the probe ids in a message: the newest of each run and source, sorted
// by run and source.
func StampsIn(b []byte) []eventmeter.Stamp {
	var found []eventmeter.Stamp
	prefix := []byte("evtm-")
	for {
		i := bytes.Index(b, prefix)
		if i < 0 {
			break
		}
		b = b[i:]
		if s, ok := eventmeter.FindStamp(b[:min(len(b), eventmeter.ProbeLen)]); ok {
			found = append(found, s)
			b = b[eventmeter.ProbeLen:]
			continue
		}
		b = b[len(prefix):]
	}
	slices.SortFunc(found, func(a, b eventmeter.Stamp) int {
		switch {
		case a.Run != b.Run:
			return int(int64(a.Run) - int64(b.Run))
		case a.Source != b.Source:
			return int(a.Source) - int(b.Source)
		}
		return int(int64(b.Seq) - int64(a.Seq)) // the newest first
	})
	return slices.CompactFunc(found, func(a, b eventmeter.Stamp) bool { return a.Run == b.Run && a.Source == b.Source })
}

// ChangesUpTo returns the changes of a source that a client learns of at once: those
// with a sequence number above before, up to newest, that were published after since.
// published may be nil. If newest belongs to another run, it is the only one.
func ChangesUpTo(published Published, before uint32, newest eventmeter.Stamp, since eventmeter.Instant) iter.Seq[eventmeter.Stamp] {
	from := before + 1
	if published != nil {
		if _, _, ok := published.Emission(newest); !ok {
			from = newest.Seq // the earlier changes of another run are not known
		}
	} else if newest.Seq-before > maxChanges {
		from = newest.Seq
	}
	return func(yield func(eventmeter.Stamp) bool) {
		for seq := from; seq <= newest.Seq && seq != 0; seq++ {
			s := eventmeter.Stamp{Run: newest.Run, Source: newest.Source, Seq: seq}
			if published != nil {
				if e, _, ok := published.Emission(s); ok && e.Fired <= since {
					continue // the client's first copy has it already
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// maxChanges bounds the changes that one probe stands for if it is not known what was
// published.
const maxChanges = 1 << 16

// Receives reports whether subscription i is owed the events of a source.
func (l *Lane[T]) Receives(i int, source uint16) bool {
	if l.Opts.Owed == nil {
		return true
	}
	sources := l.Opts.Owed(i)
	return sources == nil || slices.Contains(sources, source)
}
