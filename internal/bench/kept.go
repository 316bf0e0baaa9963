package bench

import "github.com/eventmeter/eventmeter/sinks"

// kept is an embedded target that outlives a run, so that the steps of a search
// meet the same process as they do of a target that was there before. It is not
// safe for concurrent use.
type kept struct {
	child     *Child
	dir       *tempDir
	authority *sinks.Authority
}

// lend gives a run the process that is there, if it still lives.
func (k *kept) lend(t *targetSide) bool {
	if k == nil || k.child == nil {
		return false
	}
	select {
	case <-k.child.Exited():
		k.stop()
		return false
	default:
	}
	t.child, t.dir, t.authority = k.child, k.dir, k.authority
	t.embedded = &t.child.Ready
	return true
}

// take has a run leave its process behind. It is k's to stop from then on.
func (k *kept) take(t *targetSide) {
	k.child, k.dir, k.authority = t.child, t.dir, t.authority
}

// stop ends the process; the next run starts another. It does nothing on nil.
func (k *kept) stop() {
	if k == nil {
		return
	}
	if k.child != nil {
		k.child.Stop()
	}
	k.dir.remove()
	*k = kept{}
}
