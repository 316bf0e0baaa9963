package refserver

import (
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// distort gives lists what faults make of their lifetime.
func (m *faultInjector) distort(o ListOptions) ListOptions {
	if f, ok := m.has(faults.ListTTL, eventmeter.Poll); ok {
		o.ttlMs = &f.Ms
	}
	if _, ok := m.has(faults.Scope, eventmeter.Poll); ok {
		o.Private = !o.Private
	}
	return o
}

// milliseconds is what results say about how long they may be kept.
func (o ListOptions) milliseconds() int64 {
	if o.ttlMs != nil {
		return int64(*o.ttlMs)
	}
	return o.TTL.Milliseconds()
}

// served counts a page whose scope is wrong.
func (ls *lists) served() {
	if f, ok := ls.faultInjector.has(faults.Scope, eventmeter.Poll); ok {
		ls.faultInjector.countIn(faults.SEP2549, f)
	}
}

// apply changes a list and tells of it, as the change's fault wants it. Delayed
// notifications keep their order as far as their delays do.
func (ls *lists) apply(l *list, stamp eventmeter.Stamp, probed bool) {
	var f faults.Fault
	if m := ls.faultInjector; m != nil && probed {
		var hit bool
		if f, hit = m.spec.Event(eventmeter.Poll, stamp); hit {
			m.countIn(faults.SEP2549, f)
		}
	}
	if f.Kind != faults.Stale {
		l.change(stamp, probed)
	}
	switch f.Kind {
	case faults.Drop:
	case faults.Duplicate:
		ls.hub.tell(l.kind)
		ls.hub.tell(l.kind)
	case faults.Delay:
		ls.faultInjector.agenda.at(time.Now().Add(f.DelayOf(stamp)), func() { ls.hub.tell(l.kind) })
	default:
		ls.hub.tell(l.kind)
	}
}
