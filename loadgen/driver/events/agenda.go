package events

import (
	"container/heap"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// agenda schedules the refreshes of a lane, with one goroutine and one timer for all of
// them, and a bounded number of goroutines for those that are due. It is safe for
// concurrent use.
type agenda struct {
	clock *eventmeter.Clock
	wake  chan struct{}
	stop  chan struct{}
	done  chan struct{}
	slots chan struct{}
	work  sync.WaitGroup

	mu   sync.Mutex
	heap entries
	of   map[refresher]*entry
}

// refresher is what an agenda refreshes.
type refresher interface{ refresh() }

type entry struct {
	at    eventmeter.Instant
	of    refresher
	index int
}

// refreshesAtOnce bounds the refreshes in progress. Others are late, as they would be in
// a client with so many subscriptions.
const refreshesAtOnce = 64

func newAgenda(clock *eventmeter.Clock) *agenda {
	a := &agenda{
		clock: clock, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		slots: make(chan struct{}, refreshesAtOnce), of: map[refresher]*entry{},
	}
	go a.run()
	return a
}

// add schedules a refresh of k, and replaces one that was scheduled before.
func (a *agenda) add(at eventmeter.Instant, k refresher) {
	a.mu.Lock()
	if e := a.of[k]; e != nil {
		e.at = at
		heap.Fix(&a.heap, e.index)
	} else {
		e := &entry{at: at, of: k}
		a.of[k] = e
		heap.Push(&a.heap, e)
	}
	first := a.heap[0].of == k
	a.mu.Unlock()
	if first {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

// remove removes the refresh that is scheduled for k, if there is one.
func (a *agenda) remove(k refresher) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.of[k]; e != nil {
		heap.Remove(&a.heap, e.index)
		delete(a.of, k)
	}
}

// due removes and returns the next refresh if it is due; otherwise it returns nil and how
// long to wait.
func (a *agenda) due() (refresher, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heap) == 0 {
		return nil, time.Hour
	}
	e := a.heap[0]
	if wait := e.at.Sub(a.clock.Now()); wait > 0 {
		return nil, wait
	}
	heap.Pop(&a.heap)
	delete(a.of, e.of)
	return e.of, 0
}

func (a *agenda) run() {
	defer crash.Guard()
	defer close(a.done)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		k, wait := a.due()
		if k == nil {
			t.Reset(wait)
			select {
			case <-a.stop:
				return
			case <-a.wake:
			case <-t.C:
			}
			continue
		}
		select {
		case <-a.stop:
			return
		case a.slots <- struct{}{}:
		}
		a.work.Go(func() {
			defer crash.Guard()
			k.refresh()
			<-a.slots
		})
	}
}

// close ends the agenda and waits for the refreshes in progress. Their runs must be over.
func (a *agenda) close() {
	close(a.stop)
	<-a.done
	a.work.Wait()
}

type entries []*entry

func (h entries) Len() int { return len(h) }

func (h entries) Less(i, j int) bool { return h[i].at < h[j].at }

func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are for container/heap.
func (h *entries) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
