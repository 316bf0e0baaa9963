package refserver

import (
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// The faults of requests that can be resumed. Those of single messages hit
// progress messages by their number, in every request alike.

// has returns the fault of a kind that requests have.
func (j *job) has(kind faults.Kind) (faults.Fault, bool) {
	return j.owner.server.faultInjector.has(kind, eventmeter.Push)
}

// commit notes that a fault was committed.
func (j *job) commit(f faults.Fault) {
	j.owner.server.faultInjector.countIn(faults.SEP975, f)
}

// progress says the progress message of the step that was just done, as its
// fault wants it; the caller holds the lock.
func (j *job) progress() {
	var f faults.Fault
	if m := j.owner.server.faultInjector; m != nil {
		f, _ = m.spec.Event(eventmeter.Push, eventmeter.Stamp{Seq: uint32(j.step)})
	}
	switch f.Kind {
	case faults.Drop:
		j.commit(f)
		return
	case faults.Duplicate:
		j.commit(f)
		j.say(j.progressFrame())
	}
	j.say(j.progressFrame())
	if f.Kind == faults.Cut && !j.ended {
		j.kept[len(j.kept)-1].cut = &f
	}
}

// cutAt ends a connection at message i: after it, to send it again on the next
// one, or in its place, for good. The caller holds the lock.
func (j *job) cutAt(i int, frames [][]byte) [][]byte {
	m := &j.kept[i]
	j.commit(*m.cut)
	if m.cut.Replay {
		m.cut = nil
		return append(frames, m.frame)
	}
	j.uncharge(j.kept[i : i+1])
	j.kept = slices.Delete(j.kept, i, i+1)
	return frames
}

// patience is how long the job is kept without a connection.
func (j *job) patience() time.Duration {
	if f, ok := j.has(faults.Lapse); ok {
		return f.After
	}
	if f, ok := j.has(faults.Leak); ok {
		j.commit(f)
		return longestWait
	}
	return j.maxWait
}

// refuses counts a resume and says whether and how it is refused.
func (j *job) refuses() *rpcError {
	f, ok := j.has(faults.NoResume)
	if !ok {
		return nil
	}
	j.mu.Lock()
	j.resumes++
	hit := j.resumes%f.Every == 0
	j.mu.Unlock()
	if !hit {
		return nil
	}
	j.commit(f)
	return &rpcError{Code: f.Code, Message: "refused by a fault"}
}

// twofold tells whether several connections may have the request at once. Each
// of them is sent all of its messages then, from the first.
func (j *job) twofold() bool {
	_, ok := j.has(faults.Twofold)
	return ok
}

// leave takes a connection off the list, and makes the one that is left the
// job's; the caller holds the lock.
func (j *job) leave(k *link) {
	j.both = slices.DeleteFunc(j.both, func(o *link) bool { return o == k })
	if j.twofold() && j.link == k && len(j.both) > 0 {
		j.link = j.both[0]
	}
}

// late is how much later than its work a result is sent.
func (j *job) late() time.Duration {
	f, ok := j.has(faults.LateResult)
	if ok {
		j.commit(f)
	}
	return f.Over
}
