package sep2549

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// herdBin is the width of the bins in which fetches are counted.
const herdBin = eventmeter.Instant(100 * time.Millisecond)

// account has the counts and timings of a lane. It is safe for concurrent use.
type account struct {
	uses, served, failed, abandoned, missed atomic.Int64
	reads, avoided, waited, servedStale     atomic.Int64
	fetchesBy                               [5]atomic.Int64 // fetches for uses, by freshness of the copy
	background, fetchesFailed               atomic.Int64
	cursorFailures, regressed, privatePages atomic.Int64
	ttlMissing, scopesMixed, reordered      atomic.Int64
	shown                                   atomic.Int64
	changes, otherChanges, reconnects       atomic.Int64
	bytes                                   atomic.Int64 // after attaching
	ttl                                     atomic.Int64 // of the last answer, in nanoseconds

	times driver.Tally // has only durations

	mu         sync.Mutex
	seen       int64
	superseded int64
	undecided  []learned
	bins       [5]map[int64]int64
	windows    []window
}

// learned is one emission that a client has learned of.
type learned struct {
	stamp      eventmeter.Stamp
	at         eventmeter.Instant
	after      eventmeter.Instant // when a notification made the former copy stale; 0 = none did
	superseded bool
}

// window is the time during which a client was attached, and what it knew at the end.
type window struct {
	index        int
	active, left eventmeter.Instant
	known        map[uint64]uint32
}

// ended adds the window of a client that has left. The caller holds the client's lock, so
// that a client is either open or in the account.
func (t *account) ended(w window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows = append(t.windows, w)
}

func (t *account) windowsEnded() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.windows)
}

// fetched counts a fetch that was begun.
func (t *account) fetched(at eventmeter.Instant, why freshness, background bool) {
	if background {
		t.background.Add(1)
	} else {
		t.fetchesBy[why].Add(1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bins[why] == nil {
		t.bins[why] = map[int64]int64{}
	}
	t.bins[why][int64(at/herdBin)]++
}

// learn adds an emission that a client learned of. The emission counts only if it was
// accepted, so it waits until its outcome is known.
func (t *account) learn(known driver.Published, l learned) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.decide(known, l) {
		t.undecided = append(t.undecided, l)
	}
}

// decide counts l; false if its outcome is not known yet. The caller holds the lock.
func (t *account) decide(known driver.Published, l learned) bool {
	e, outcome, ok := known.Emission(l.stamp)
	switch {
	case !ok || !e.Measured:
		return true
	case outcome == eventmeter.Pending:
		return false
	case outcome != eventmeter.Accepted:
		return true
	}
	if l.superseded {
		t.superseded++
	} else {
		t.seen++
	}
	t.times.Took("staleness", l.at.Sub(e.Fired))
	if l.after >= e.Fired {
		t.times.Took("invalidation", l.after.Sub(e.Fired))
	}
	return true
}

// firedTable has the measured and accepted emissions of one source.
type firedTable struct {
	fired []eventmeter.Instant // rising
	seq   []uint32
}

func tableOf(known driver.Published, source uint16) (f firedTable) {
	for seq := uint32(1); ; seq++ {
		e, outcome, ok := known.Emission(eventmeter.Stamp{Run: known.Run(), Source: source, Seq: seq})
		if !ok {
			return f
		}
		if e.Measured && outcome == eventmeter.Accepted {
			f.fired, f.seq = append(f.fired, e.Fired), append(f.seq, seq)
		}
	}
}

// tables returns the tables of all sources.
func (d *lane) tables() []firedTable {
	known := d.Opts.Published
	if known == nil {
		return nil
	}
	out := make([]firedTable, known.Sources())
	for s := range out {
		out[s] = tableOf(known, uint16(s))
	}
	return out
}

// owed returns the number of emissions that were published between active and left, and how
// many of them have a sequence number above seq.
func (f firedTable) owed(active, left eventmeter.Instant, seq uint32) (all, after int64) {
	from := sort.Search(len(f.fired), func(i int) bool { return f.fired[i] > active })
	to := sort.Search(len(f.fired), func(i int) bool { return f.fired[i] >= left })
	if to <= from {
		return 0, 0
	}
	unseen := max(sort.Search(len(f.seq), func(i int) bool { return f.seq[i] > seq }), from)
	return int64(to - from), int64(max(to-unseen, 0))
}

func sourceKey(run uint32, source uint16) uint64 { return uint64(run)<<16 | uint64(source) }

// Figures implements [driver.Figurer]; docs/sep-2549.md defines the figures.
func (d *lane) Figures() driver.Figures {
	t := &d.tally
	now := d.Clock.Now()
	before := t.windowsEnded()
	windows := d.openWindows(now)
	tables := d.tables() // before the lock, so that clients do not wait for it
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.windows[before:] { // a client that left meanwhile counts once
		windows = slices.DeleteFunc(windows, func(o window) bool { return o.index == w.index && o.active == w.active })
	}
	windows = append(windows, t.windows...)
	var foreground int64
	for i := range t.fetchesBy {
		foreground += t.fetchesBy[i].Load()
	}
	reads := t.reads.Load()
	v := map[string]float64{"fetches": float64(foreground + t.background.Load()), "ttlMs": float64(t.ttl.Load()) / 1e6}
	for name, n := range map[string]*atomic.Int64{
		"uses": &t.uses, "usesServed": &t.served, "usesFailed": &t.failed, "usesAbandoned": &t.abandoned, "usesMissed": &t.missed,
		"pageReads": &t.reads, "fetchesAvoided": &t.avoided, "fetchesShared": &t.waited, "servedStale": &t.servedStale,
		"fetchesFirst": &t.fetchesBy[missing], "fetchesExpired": &t.fetchesBy[expired], "fetchesChanged": &t.fetchesBy[changed],
		"fetchesUncached": &t.fetchesBy[uncached], "fetchesBackground": &t.background, "fetchesFailed": &t.fetchesFailed,
		"cursorFailures": &t.cursorFailures, "regressed": &t.regressed, "reordered": &t.reordered, "shownAtEnd": &t.shown,
		"privatePages": &t.privatePages,
		"ttlMissing":   &t.ttlMissing, "scopesMixed": &t.scopesMixed, "changesNotified": &t.changes,
		"otherChangesNotified": &t.otherChanges, "listenReconnects": &t.reconnects,
	} {
		v[name] = float64(n.Load())
	}
	if reads > 0 {
		v["avoidedShare"] = v["fetchesAvoided"] / v["pageReads"]
	}
	unbalanced := reads - t.avoided.Load() - t.waited.Load() - foreground
	unbalanced += t.uses.Load() - t.served.Load() - t.failed.Load() - t.abandoned.Load()
	var first, last eventmeter.Instant
	var active time.Duration
	for _, w := range windows {
		if first == 0 || w.active < first {
			first = w.active
		}
		last = max(last, w.left)
		active += w.left.Sub(w.active)
	}
	v["clientHours"] = active.Hours()
	if active > 0 {
		v["bytesPerClientHour"] = float64(t.bytes.Load()) / active.Hours()
	}
	v["herdExpired"], _ = herd(t.bins[expired], first, last)
	v["herdChanged"], _ = herd(t.bins[changed], first, last)
	_, v["fetchRatePeak"] = herd(sumBins(t.bins[:]), first, last)
	if d.Opts.Published != nil {
		unbalanced += t.account(d, tables, windows, v)
	}
	v["unbalanced"] = float64(unbalanced)
	t.times.DeclareTiming("staleness", "invalidation", "fetch")
	f := t.times.Figures()
	f.Values = v
	return f
}

// account adds the figures about changes to v. It returns by how much their sums differ,
// which is always 0. The caller holds the lock.
func (t *account) account(d *lane, tables []firedTable, windows []window, v map[string]float64) int64 {
	known := d.Opts.Published
	rest := t.undecided[:0]
	for _, l := range t.undecided {
		if !t.decide(known, l) {
			rest = append(rest, l)
		}
	}
	t.undecided = rest
	var owed, never int64
	for _, w := range windows {
		for s := range tables {
			if !d.Receives(w.index, uint16(s)) {
				continue
			}
			all, unseen := tables[s].owed(w.active, w.left, w.known[sourceKey(known.Run(), uint16(s))])
			owed += all
			never += unseen
		}
	}
	v["changesOwed"], v["changesNeverSeen"] = float64(owed), float64(never)
	v["changesSeen"], v["changesSuperseded"] = float64(t.seen), float64(t.superseded)
	return owed - t.seen - t.superseded - never
}

func sumBins(all []map[int64]int64) map[int64]int64 {
	sum := map[int64]int64{}
	for _, bins := range all {
		for k, n := range bins {
			sum[k] += n
		}
	}
	return sum
}

// herd returns the fetches in the fullest bin divided by the mean of all bins from first to
// last, and the fetches in the fullest bin per second. Both are 0 without fetches.
func herd(bins map[int64]int64, first, last eventmeter.Instant) (factor, peakRate float64) {
	var sum, peak int64
	from, to := int64(first/herdBin), int64(last/herdBin)
	for k, n := range bins {
		if k < from || k > to {
			continue
		}
		sum += n
		peak = max(peak, n)
	}
	if sum == 0 {
		return 0, 0
	}
	return float64(peak) * float64(to-from+1) / float64(sum), float64(peak) * float64(time.Second) / float64(herdBin)
}
