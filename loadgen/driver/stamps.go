package driver

import (
	"bytes"
	"slices"

	"github.com/eventmeter/eventmeter"
)

// StampsIn finds the probe ids of a message: the newest of each run and source,
// in order.
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
